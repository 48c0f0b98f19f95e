// Scopes: the choice of the board's ranking that is shown, and the form to choose another one.
//
// A scope is { labels, values, by }: the names of its labels, their values (null until they are
// chosen), or the label whose values are ranked. In addresses, as in queries of the API, the labels
// are one parameter with percent-encoded values: `labels=gender=f,room=42`.

import { ask, boardPath, url } from "./api.js";
import { el } from "./dom.js";
import { decoded, linkTo } from "./windows.js";

const SUGGESTED = 50;
const LISTED = 100;
const TYPING_MS = 150;

/** Returns whether a board has rankings by labels. */
export function isScoped(board) {
  return board.rank_by.length > 0 || board.scopes.length !== 1 || board.scopes[0].length > 0;
}

/** Returns the names of all labels of a board. */
export function labelsOf(board) {
  return [...new Set([...board.scopes.flat(), ...board.rank_by])].sort();
}

/**
 * Returns the scope in an address. The default is the ranking of all events or, if the board has
 * none, the first scope.
 */
export function scopeIn(board, query) {
  if (board.rank_by.includes(query.by)) return { labels: [], values: {}, by: query.by };
  const values = valuesIn(query.labels);
  const of = (text) => board.scopes.find((labels) => String(labels) === text);
  const found = (values.size > 0 && of(String([...values.keys()].sort()))) || of(query.scope ?? "") || of("");
  if (found) return chosen(found, values);
  const [by] = board.rank_by;
  return by ? { labels: [], values: {}, by } : chosen(board.scopes[0], values);
}

function chosen(labels, values) {
  const isWhole = labels.every((label) => values.get(label));
  const own = Object.fromEntries(labels.map((label) => [label, values.get(label)]));
  return { labels, values: isWhole ? own : null, by: null };
}

/** Parses labels into values by name. */
function valuesIn(text) {
  const parts = text ? text.split(",").map((part) => part.split("=")) : [];
  return new Map(parts.map(([label, value = ""]) => [label, decoded(value)]));
}

/** Formats labels as text, from values by name; null if there are none. */
function textOf(values) {
  const parts = Object.keys(values).sort().map((label) => `${label}=${encodeURIComponent(values[label])}`);
  return parts.join(",") || null;
}

/** Returns a scope as parameters, for addresses and queries. */
export function queryOf(scope) {
  if (scope.by) return { by: scope.by };
  return scope.values ? { labels: textOf(scope.values) } : { scope: String(scope.labels) };
}

/** Returns a scope as the suffix of a title: `, room 42`. */
export function scopeText(scope) {
  if (scope.by) return `, by ${scope.by}`;
  return scope.labels.map((label) => `, ${label}${scope.values ? ` ${scope.values[label]}` : ""}`).join("");
}

/**
 * Returns the link of a row: to a member or, if the values of a label are ranked, to the scope of
 * one.
 */
export function rowLink(board, scope, window, member) {
  const isOwn = scope.by && board.scopes.some((labels) => String(labels) === scope.by);
  return linkTo(board.name, { window, ...(isOwn ? { labels: textOf({ [scope.by]: member }) } : { ...queryOf(scope), member }) });
}

/** Creates the form to choose a scope; none if the board has only one. */
export function scopeForm(board, scope, window, signal) {
  if (!isScoped(board)) return null;
  const go = (query) => {
    location.hash = linkTo(board.name, { window: window.name, ...query });
  };
  const fields = scope.by ? [] : scope.labels.map((label) => valueField(board, scope, label, signal));
  const take = (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.currentTarget));
    if (scope.labels.every((label) => values[label])) go({ labels: textOf(values) });
  };
  return el(
    "form",
    { class: "scope", "aria-label": "Scope", onsubmit: take },
    select(board, scope, go),
    fields,
    fields.length ? el("button", { type: "submit" }, "Show") : null,
  );
}

function select(board, scope, go) {
  const forms = board.scopes.map((labels) => ({ text: labels.join(", ") || "All", query: { scope: String(labels) } }));
  const lists = board.rank_by.map((label) => ({ text: `By ${label}`, query: { by: label } }));
  const options = [...forms, ...lists];
  const current = scope.by ? forms.length + board.rank_by.indexOf(scope.by) : board.scopes.indexOf(scope.labels);
  return el(
    "label",
    { class: "field inline" },
    el("span", {}, "Scope"),
    el(
      "select",
      { "data-focus": "scope", onchange: (event) => go(options[event.target.value].query) },
      options.map(({ text }, i) => el("option", { value: String(i), selected: i === current }, text)),
    ),
  );
}

function valueField(board, scope, label, signal) {
  const list = el("datalist", { id: `values-${label}` });
  let timer = null;
  const suggest = (input) => {
    clearTimeout(timer);
    timer = setTimeout(() => fill(list, board, scope, label, input.value, signal), TYPING_MS);
  };
  const input = el("input", {
    name: label,
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    list: list.id,
    value: scope.values?.[label],
    "data-focus": `scope ${label}`,
    onfocus: (event) => suggest(event.target),
    oninput: (event) => suggest(event.target),
    // With several labels, the other values are still empty: submitting now would remove the form.
    onchange: (event) => scope.labels.length === 1 && event.target.form.requestSubmit(),
  });
  return el("label", { class: "field inline" }, el("span", {}, label), input, list);
}

/** Suggests values: of a single label by prefix, of several labels the first ones. */
async function fill(list, board, scope, label, typed, signal) {
  const isOne = scope.labels.length === 1;
  const after = isOne && typed ? textOf({ [label]: typed }) : null;
  try {
    const { scopes } = await listed(board, scope, { limit: SUGGESTED, after }, signal);
    const values = [...new Set(scopes.map((each) => each[label]))];
    const fitting = after ? [typed, ...values.filter((value) => value.startsWith(typed))] : values;
    list.replaceChildren(...fitting.map((value) => el("option", { value })));
  } catch {
    list.replaceChildren();
  }
}

function listed(board, scope, query, signal) {
  const address = url(boardPath(board.name, "scopes"), { labels: String(scope.labels), ...query });
  return ask(address, { signal });
}

/** Lists the existing scopes as links, page by page. */
export async function scopeList(board, scope, window, signal) {
  const list = el("ul", { class: "chips scopes" });
  const more = el("button", { type: "button", class: "more" }, "Show more");
  const show = async (after) => {
    const { scopes, next } = await listed(board, scope, { limit: LISTED, after }, signal);
    list.append(...scopes.map((values) => el("li", {}, scopeLink(board, scope, window, values))));
    more.hidden = next === null;
    more.onclick = () => show(next);
  };
  await show(null);
  const what = scope.labels.join(" and ");
  return el(
    "section",
    { class: "panel", "aria-label": "Scopes" },
    el("h2", {}, `Choose ${what}`),
    list.children.length ? list : el("p", { class: "muted" }, "No event with these labels has been counted yet."),
    more,
  );
}

function scopeLink(board, scope, window, values) {
  const text = scope.labels.map((label) => values[label]).join(", ");
  return el("a", { href: linkTo(board.name, { window: window.name, labels: textOf(values) }) }, el("bdi", {}, text));
}
