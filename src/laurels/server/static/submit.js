// The form to submit a score.

import { Refused, ask, boardPath, url } from "./api.js";
import { el, field, memberName, problemNotice } from "./dom.js";
import { rankText, scoreText } from "./exact.js";
import { isScoped, labelsOf } from "./scopes.js";

const STATUS = {
  applied: "Counted",
  unchanged: "Counted, nothing changed",
  duplicate: "Already counted before",
};

/**
 * Creates the form for a board. Receipts have scores and ranks in `window` and the scope. With
 * `member`, the form submits only for that member.
 */
export function submitForm(board, scope, window, member, signal) {
  const result = el("div", { class: "result", "aria-live": "polite" });
  const query = { window, scope: isScoped(board) && !scope.by ? String(scope.labels) : null };
  const send = sender(board, query, signal);
  const form = el(
    "form",
    { class: "panel", "aria-labelledby": "submit-title", onsubmit: (event) => submit(event, send, board, result) },
    el("h2", { id: "submit-title" }, "Submit a score"),
    field("Member", {
      name: "member",
      required: true,
      spellcheck: "false",
      value: member,
      readonly: member !== null,
      "data-focus": "submit",
    }),
    board.columns.map((column) =>
      field(valueLabel(column), { name: "value", required: true, inputmode: "decimal", placeholder: example(column) }),
    ),
    isScoped(board) ? labelsOf(board).map((label) => labelField(label, scope)) : null,
    el("button", { class: "primary", type: "submit" }, "Submit"),
    result,
  );
  return form;
}

function labelField(label, scope) {
  const value = scope.values?.[label];
  return field(`Label ${label}`, { name: `label ${label}`, value, spellcheck: "false", "data-focus": `label ${label}` });
}

/** Returns the labels in the fields of the form; none if all are empty. */
function labelsIn(fields) {
  const filled = [...fields].filter(([name, value]) => name.startsWith("label ") && value);
  return filled.length ? Object.fromEntries(filled.map(([name, value]) => [name.slice("label ".length), value])) : undefined;
}

function valueLabel(column) {
  const does = { sum: "added to", last: "the new", best: "counts if better:" };
  return `Value, ${does[column.op]} ${column.name}`;
}

function example(column) {
  const places = Number(column.scale);
  return places ? `0.${"0".repeat(places)}` : "0";
}

/**
 * Sends an event with a unique id. Without an answer it is sent again with the same id, so it
 * counts once.
 */
function sender(board, query, signal) {
  let unanswered = null;
  return async (member, value, labels) => {
    const content = JSON.stringify([member, value, labels]);
    if (unanswered?.content !== content) unanswered = { content, id: newId() };
    const body = { member, value, id: unanswered.id, labels };
    try {
      const receipt = await ask(url(boardPath(board.name, "scores"), query), { body, signal });
      unanswered = null;
      return receipt;
    } catch (error) {
      if (error instanceof Refused) unanswered = null;
      throw error;
    }
  };
}

function newId() {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return `page-${Array.from(numbers, (number) => number.toString(36)).join("-")}`;
}

async function submit(event, send, board, result) {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  const fields = new FormData(form);
  const values = fields.getAll("value").map((value) => value.trim());
  button.disabled = true;
  try {
    const value = values.length > 1 ? values : values[0];
    const receipt = await send(fields.get("member"), value, labelsIn(fields));
    result.replaceChildren(receiptNode(receipt, board));
    for (const input of form.querySelectorAll("[name=value]")) input.value = "";
  } catch (error) {
    if (error.name !== "AbortError") result.replaceChildren(problemNotice(error));
  } finally {
    button.disabled = false;
    button.focus();
  }
}

function receiptNode(receipt, board) {
  const text = (score) => scoreText(score, board.columns);
  return el(
    "div",
    { class: "notice good" },
    el("p", { class: "what" }, STATUS[receipt.status] ?? receipt.status, ": ", memberName(receipt.member)),
    el(
      "dl",
      { class: "pair" },
      pair("Rank", receipt.rank, receipt.previous_rank, rankText),
      pair("Score", receipt.score, receipt.previous_score, text),
    ),
  );
}

function pair(name, now, before, text) {
  if (now === null) return null;
  const was = before === null || text(before) === text(now) ? null : `was ${text(before)}`;
  return el("div", {}, el("dt", {}, name), el("dd", { class: "big" }, text(now), was && el("span", { class: "muted" }, was)));
}
