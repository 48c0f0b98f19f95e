// The prizes of a window, and who wins them: now while the period runs, or finally.

import { Refused, ask, boardPath, url } from "./api.js";
import { el, memberName, problemNotice, setText } from "./dom.js";
import { grouped, scoreText } from "./exact.js";

const PAGE = 50;
const AGAIN_MS = 5000;
const TIES = {
  all: "Members with equal scores all have the prizes of the best of their positions.",
  first: "Members with equal scores have the prizes of their own positions.",
  split: "Members with equal scores divide the prizes of their positions.",
};

/** Returns the prizes that a window awards in a scope; null if it has none there. */
export function prizesIn(window, scope) {
  if (window.prizes === null || scope.by) return null;
  return window.prizes.scopes.some((labels) => String(labels) === String(scope.labels)) ? window.prizes : null;
}

/** Creates the list of prizes, each with the positions it is for. */
export function prizeBands(prizes, columns) {
  const bands = prizes.list.map((prize) =>
    el(
      "li",
      {},
      el("span", { class: "what" }, el("bdi", {}, prize.name)),
      prize.amount ? el("b", {}, grouped(prize.amount)) : null,
      el("span", { class: "muted" }, positionsText(prize, columns)),
    ),
  );
  const after = prizes.pay_after === "0s" ? "" : ` Payouts are due ${prizes.pay_after} after the period is sealed.`;
  return [el("ul", { class: "bands" }, bands), el("p", { class: "muted small" }, TIES[prizes.ties], after)];
}

function positionsText({ ranks, percent, at_least: least }, columns) {
  if (ranks) {
    const [first, last] = ranks.map(grouped);
    return first === last ? `Position ${first}` : `Positions ${first} to ${last}`;
  }
  if (percent) return `The best ${grouped(percent)} %`;
  return `${columns[0].order === "desc" ? "From" : "Up to"} ${scoreText(least, columns)}`;
}

/** Who wins: read when it is opened, and again while it is open and the ranking changes. */
export class Winners {
  /** `query` has the window, the scope and the period; `past` is a past period or null. */
  constructor(board, query, past, linkTo, signal) {
    Object.assign(this, { board, query, linkTo, signal });
    this.isFinal = ["final", "closed", "sealed"].includes(past?.state);
    this.limit = PAGE;
    this.timer = null;
    this.readAt = -Infinity;
    this.list = el("ol", { class: "winners" });
    this.note = el("p", { class: "muted small", role: "status" });
    this.more = el("button", { type: "button", hidden: true, onclick: () => this.readMore() }, "More winners");
    this.node = el(
      "details",
      { ontoggle: () => this.node.open && this.read() },
      el("summary", { "data-focus": "winners" }, this.isFinal ? "Winners" : "Who would win now"),
      this.list,
      this.more,
      this.note,
    );
    signal.addEventListener("abort", () => clearTimeout(this.timer));
  }

  /** Reads the winners again soon, if they are shown and may change. */
  changed() {
    if (!this.node.open || this.isFinal || this.timer !== null) return;
    this.timer = setTimeout(() => this.read(), Math.max(this.readAt + AGAIN_MS - performance.now(), 0));
  }

  readMore() {
    this.limit += PAGE;
    return this.read();
  }

  async read() {
    this.timer = null;
    this.readAt = performance.now();
    const address = url(boardPath(this.board.name, "settle"), { ...this.query, limit: Math.min(this.limit, 1000) });
    try {
      this.show(await ask(address, { signal: this.signal }));
    } catch (error) {
      if (this.signal.aborted) return;
      if (error instanceof Refused && error.problem.code === "no_prizes") this.showNone();
      else this.note.replaceChildren(problemNotice(error));
    }
  }

  show({ awards, total, next }) {
    const byPlace = new Map();
    for (const award of awards) {
      const place = byPlace.get(award.position) ?? { ...award, prizes: [] };
      place.prizes.push(award);
      byPlace.set(award.position, place);
    }
    const places = [...byPlace.values()];
    this.list.replaceChildren(...places.map((place) => this.winner(place)));
    this.more.hidden = next === null || this.limit >= 1000;
    const of = `${grouped(places.length)}${next === null ? "" : "+"} of ${grouped(total)} members.`;
    setText(this.note, this.isFinal ? of : `${of} Until the period is final this may change.`);
  }

  showNone() {
    this.list.replaceChildren();
    setText(this.note, "This period had no prizes.");
  }

  winner({ position, member, prizes }) {
    const won = prizes.map(({ prize, amount }) => [
      el("span", { class: "chip" }, el("bdi", {}, prize), amount ? [" ", el("b", {}, grouped(amount))] : null),
    ]);
    return el(
      "li",
      {},
      el("span", { class: "muted" }, `#${grouped(position)}`),
      el("a", { href: this.linkTo(member), title: member }, memberName(member)),
      el("span", { class: "won" }, won),
    );
  }
}
