// The story of a sealed period, for callers who administer: when it was sealed, who corrected it and
// why, and what was paid.

import { ask, url } from "./api.js";
import { el, memberName, problemNotice } from "./dom.js";
import { grouped } from "./exact.js";
import { decoded, instantText } from "./windows.js";

const PAGE = 1000;

/** Creates the story of a period; it is read when it is opened. `isFirst`: the window is the board's first. */
export function storyOf(board, window, isFirst, period, signal) {
  const list = el("ol", { class: "rows" });
  const read = async ({ target }) => {
    if (!target.open) return;
    try {
      const calls = await callsAbout(board, window, isFirst, period, signal);
      list.replaceChildren(sealed(window, period), ...calls.map((call) => callItem(window, call)));
    } catch (error) {
      if (!signal.aborted) list.replaceChildren(el("li", {}, problemNotice(error)));
    }
  };
  return el(
    "details",
    { class: "panel under", ontoggle: read },
    el("summary", { "data-focus": "story" }, "Story of this period"),
    list,
  );
}

function sealed(window, { sealed_ms: at, entries, digest, revision }) {
  const now = Number(revision) ? `, now revision ${grouped(revision)}` : "";
  return item(window, at, `Sealed${now}: ${grouped(entries)} entries, digest ${digest}`);
}

/** Returns the recorded calls about a period, oldest first. They are all later than its seal. */
async function callsAbout(board, window, isFirst, period, signal) {
  const isAbout = ({ verb, request }) => {
    if (verb === "confirm") {
      const [, paidWindow, paidPeriod] = String(request?.payout ?? "").split("/").map(decoded);
      return paidWindow === window.name && paidPeriod === period.label;
    }
    const isWindow = request?.window === window.name || (isFirst && (request?.window ?? null) === null);
    return verb === "disqualify" && isWindow && request.period === period.label;
  };
  const calls = [];
  let before = null;
  do {
    const page = await ask(url("/v1/audit", { board: board.name, before, limit: PAGE }), { signal });
    const since = page.entries.filter(({ at_ms: at }) => Number(at) >= Number(period.sealed_ms));
    calls.push(...since.filter(isAbout));
    before = since.length < page.entries.length ? null : page.next;
  } while (before !== null);
  return calls.reverse();
}

function callItem(window, { at_ms: at, by, verb, request }) {
  const what =
    verb === "confirm"
      ? [memberName(decoded(request.payout.split("/")[4] ?? "")), ` was paid: ${request.reference}`]
      : [memberName(request.member), ` was disqualified${correctedScope(request.labels)}: ${request.reason}`];
  return item(window, at, [what, " (by ", el("bdi", {}, by), ")"]);
}

/** Returns the text for the scope of a correction; empty if all scopes were corrected. */
function correctedScope(labels) {
  if (!labels) return "";
  const scope = Object.keys(labels).sort().map((label) => `${label}=${labels[label]}`).join(", ");
  return ` in ${scope || "the scope of all events"}`;
}

function item(window, at, what) {
  return el("li", {}, el("span", { class: "muted small" }, instantText(at, window.zone)), el("p", {}, what));
}
