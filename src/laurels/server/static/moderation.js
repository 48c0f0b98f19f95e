// Moderation, for callers who administer: hide a member and show it again, and disqualify a member
// from a sealed period.

import { ask, boardPath, url } from "./api.js";
import { el, field, memberName, problemNotice, say } from "./dom.js";
import { grouped } from "./exact.js";
import { queryOf } from "./scopes.js";
import { instantText } from "./windows.js";

const PAGE = 100;
const MOST_REASON = 500;

/** Creates the list of hidden members and the form to hide one; the list is read when it is opened. */
export function hiddenPanel(board, signal) {
  const list = el("ul", { class: "rows" });
  const none = el("p", { class: "muted", hidden: true }, "Nobody is hidden.");
  const problem = el("div", { class: "result", "aria-live": "polite" });
  const more = el("button", { type: "button", class: "more", hidden: true }, "More");
  const read = async (after = null) => {
    try {
      const page = await hiddenAfter(board, after, signal);
      const items = page.map((hidden) => hiddenItem(board, hidden, () => read(), signal));
      if (after === null) list.replaceChildren(...items);
      else list.append(...items);
      none.hidden = list.children.length > 0;
      more.hidden = page.length < PAGE;
      more.onclick = () => read(page.at(-1).member);
      problem.replaceChildren();
    } catch (error) {
      if (!signal.aborted) problem.replaceChildren(problemNotice(error));
    }
  };
  return el(
    "details",
    { class: "panel under", ontoggle: ({ target }) => target.open && read() },
    el("summary", { "data-focus": "hidden" }, "Hidden members"),
    list,
    none,
    problem,
    more,
    hideForm(board, null, () => read(), signal),
  );
}

/** Creates the moderation of one member: to hide it or, if it is hidden, to show it. */
export function memberModeration(board, member, changed, signal) {
  const content = el("div");
  const read = async () => {
    try {
      const hidden = await hiddenMember(board, member, signal);
      const done = async () => {
        await read();
        changed();
      };
      content.replaceChildren(
        hidden
          ? el("ul", { class: "rows" }, hiddenItem(board, hidden, done, signal))
          : hideForm(board, member, done, signal),
      );
    } catch (error) {
      if (!signal.aborted) content.replaceChildren(problemNotice(error));
    }
  };
  return el(
    "details",
    { class: "panel under", ontoggle: ({ target }) => target.open && read() },
    el("summary", { "data-focus": "moderation" }, "Moderation"),
    content,
  );
}

function hiddenAfter(board, after, signal, limit = PAGE) {
  return ask(url(boardPath(board.name, "hidden"), { after, limit }), { signal });
}

/** Returns the hiding of a member, or undefined. The list is read from shortly before the member on. */
async function hiddenMember(board, member, signal) {
  let after = [...member].slice(0, -1).join("") || null;
  for (;;) {
    const page = await hiddenAfter(board, after, signal, 1000);
    const found = page.find((hidden) => hidden.member === member);
    if (found || page.length < 1000) return found;
    after = page.at(-1).member;
  }
}

function hiddenItem(board, hidden, done, signal) {
  const { member, reason, since_ms: since, until_ms: until, everywhere } = hidden;
  const end = until ? `, until ${instantText(until)}` : "";
  const problem = el("div", { class: "result", "aria-live": "polite" });
  const show = async ({ target }) => {
    target.disabled = true;
    try {
      await ask(boardPath(board.name, "show"), { body: { member }, signal });
      say(`${member} is shown again`);
      await done();
    } catch (error) {
      if (!signal.aborted) problem.replaceChildren(problemNotice(error));
      target.disabled = false;
    }
  };
  return el(
    "li",
    { "data-hidden": member },
    el(
      "p",
      { class: "row" },
      memberName(member),
      everywhere
        ? el("span", { class: "badge" }, "on all boards")
        : el("button", { type: "button", "aria-label": `Show ${member} again`, onclick: show }, "Show again"),
    ),
    el("p", {}, reason),
    el("p", { class: "muted small" }, `Since ${instantText(since)}${end}`),
    problem,
  );
}

/** Creates the form to hide `member` or, if that is null, any member. `done` is called afterwards. */
function hideForm(board, member, done, signal) {
  const send = async (fields) => {
    const until = fields.get("until");
    // An input removes line breaks, so a given member is not read from it.
    const body = { member: member ?? fields.get("member"), reason: fields.get("reason").trim() };
    if (until) body.until = new Date(until).getTime();
    await ask(boardPath(board.name, "hide"), { body, signal });
    say(`${body.member} is hidden`);
    await done();
  };
  return reasonForm(
    "Hide a member",
    "Its scores are counted, but it is in no ranking until it is shown again.",
    [
      memberField("Member to hide", member),
      reasonField(),
      field("Until (optional, by the clock of this browser)", { name: "until", type: "datetime-local" }),
    ],
    "Hide",
    send,
    signal,
  );
}

/** Creates the form to disqualify a member from a sealed period. `done` is called afterwards. */
export function disqualifyForm(board, window, scope, period, done, signal) {
  const send = async (fields) => {
    const body = {
      member: fields.get("member"),
      reason: fields.get("reason").trim(),
      window: window.name,
      period: period.label,
    };
    if (fields.get("here")) body.labels = scope.values;
    const revision = await ask(boardPath(board.name, "disqualify"), { body, signal });
    say(`${body.member} is disqualified: revision ${grouped(revision.revision)}`);
    await done();
  };
  const isPart = !scope.by && scope.labels.length > 0;
  const form = reasonForm(
    "Disqualify a member",
    "This makes a new revision of the period, without the member. Payouts are corrected.",
    [
      memberField("Member to disqualify", null),
      reasonField(),
      isPart
        ? el("label", { class: "check" }, el("input", { type: "checkbox", name: "here" }), `Only in ${scopeName(scope)}`)
        : null,
    ],
    "Disqualify",
    send,
    signal,
  );
  return el(
    "details",
    { class: "panel under" },
    el("summary", { "data-focus": "disqualify" }, "Disqualify a member"),
    form,
  );
}

function scopeName(scope) {
  return decodeURIComponent(queryOf(scope).labels);
}

function memberField(label, member) {
  return field(label, { name: "member", required: true, spellcheck: "false", value: member, readonly: member !== null });
}

function reasonField() {
  return field("Reason", { name: "reason", required: true, maxlength: MOST_REASON });
}

function reasonForm(name, note, fields, button, send, signal) {
  const result = el("div", { class: "result", "aria-live": "polite" });
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    const pressed = form.querySelector("button");
    pressed.disabled = true;
    try {
      await send(new FormData(form));
      result.replaceChildren();
      form.reset();
    } catch (error) {
      if (!signal.aborted) result.replaceChildren(problemNotice(error));
    } finally {
      pressed.disabled = false;
    }
  };
  return el(
    "form",
    { class: "stack", "aria-label": name, onsubmit: submit },
    el("p", { class: "muted small" }, note),
    fields,
    el("button", { type: "submit" }, button),
    result,
  );
}
