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

/** Creates the form for a board. Receipts have scores and ranks in `window` and the scope. */
export function submitForm(board, scope, window, signal) {
  const result = el("div", { class: "result", "aria-live": "polite" });
  const query = { window, scope: isScoped(board) && !scope.by ? String(scope.labels) : null };
  const send = sender(board.name, query, signal);
  const submit = (event) =>
    submitted(event, result, async (fields) => {
      const values = fields.getAll("value").map((value) => value.trim());
      const receipt = await send(fields.get("member"), values.length > 1 ? values : values[0], labelsIn(fields, scope));
      return receiptNode(receipt, (score) => scoreText(score, board.columns));
    });
  const form = el(
    "form",
    { class: "panel", "aria-labelledby": "submit-title", onsubmit: submit },
    el("h2", { id: "submit-title" }, "Submit a score"),
    field("Member", { name: "member", required: true, spellcheck: "false", "data-focus": "submit" }),
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
function labelsIn(fields, scope) {
  const filled = [...fields].filter(([name, value]) => name.startsWith("label ") && value);
  const labels = filled.map(([name, value]) => [name.slice("label ".length), value]);
  return filled.length ? Object.fromEntries(labels.map(([label, value]) => [label, asGiven(value, scope.values?.[label])])) : undefined;
}

/** Returns the value that a field was given, if it still has it: an input removes line breaks. */
function asGiven(value, given) {
  return given?.replace(/[\r\n]/g, "") === value ? given : value;
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
 * Returns a function that sends an event with a unique id. Without an answer it is sent again with the same id, so it
 * counts once.
 */
export function sender(board, query, signal) {
  let unanswered = null;
  return async (member, value, labels) => {
    const content = JSON.stringify([member, value, labels]);
    if (unanswered?.content !== content) unanswered = { content, id: newId() };
    const body = { member, value, id: unanswered.id, labels };
    try {
      const receipt = await ask(url(boardPath(board, "scores"), query), { body, signal });
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

/** Carries out `send` for the fields of a form, and shows what it returns, or its error, in `result`. */
export async function submitted(event, result, send) {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    result.replaceChildren(await send(new FormData(form)));
    for (const input of form.querySelectorAll("[name=value]")) input.value = "";
  } catch (error) {
    if (error.name !== "AbortError") result.replaceChildren(problemNotice(error));
  } finally {
    button.disabled = false;
    button.focus();
  }
}

/** Shows a receipt; `text` formats its scores. */
export function receiptNode(receipt, text) {
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
