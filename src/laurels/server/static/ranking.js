// A ranking as an animated table.
//
// Changes are stored on arrival and drawn with the next frame, so any number of them cost one
// layout. All rows have the same height, so the two positions of a row give the distance of its
// move, and nothing is measured between writes to the page. Moves are additive animations: a row
// that moves again during a move continues from the place where it is visible.

import { el, memberName, say, setText } from "./dom.js";
import { figures, grouped } from "./exact.js";

const MOVE = { duration: 420, easing: "cubic-bezier(.2,.8,.2,1)", composite: "add" };
const FADE = { duration: 300, easing: "ease-out" };
const FLASH = { duration: 1400, easing: "ease-out", pseudoElement: "::before" };
const TREND = { duration: 6000 };
const SAY_EVERY_MS = 5000;
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Ranking {
  /**
   * `linkTo` returns the link of a member. The row of the member `own` is highlighted. `who` is the
   * heading of the column with the members.
   */
  constructor(board, caption, linkTo, own = null, who = "Member") {
    this.board = board;
    this.who = who;
    this.linkTo = linkTo;
    this.own = own;
    this.held = new Map();
    this.order = [];
    this.rows = new Map();
    this.frame = null;
    this.saidAt = -Infinity;
    this.body = el("tbody");
    this.node = el("div", { class: "scroll" }, this.table(caption));
  }

  table(caption) {
    const columns = this.board.columns.map((column) =>
      el("th", { scope: "col", class: "figure" }, column.name === "score" ? "Score" : column.name),
    );
    const head = el("tr", {}, el("th", { scope: "col" }, "Rank"), el("th", { scope: "col" }, this.who), columns);
    return el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, head), this.body);
  }

  /** Replaces all entries. */
  show(entries) {
    this.held = new Map(entries.map((entry) => [entry.member, entry]));
    this.order = entries.map((entry) => entry.member);
    this.drawSoon();
  }

  /** Appends entries. */
  append(entries) {
    this.show([...this.order.map((member) => this.held.get(member)), ...entries]);
  }

  /** Applies a `change` of the live feed. */
  change({ order, left, entered, moved, scored }) {
    for (const member of left) this.held.delete(member);
    for (const entry of [...entered, ...moved, ...scored]) this.held.set(entry.member, entry);
    this.order = order;
    this.drawSoon();
  }

  drawSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const isFirst = this.rows.size === 0;
    const seen = this.seenPlaces();
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const leader = this.body.firstElementChild?.dataset.member;
    this.removeGone();
    this.order.forEach((member, place) => this.put(member, place, isFirst ? null : seen));
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
    this.sayLeader(leader);
  }

  /** Measures the height of a row and the visible positions, before any write. */
  seenPlaces() {
    const height = this.body.firstElementChild?.offsetHeight ?? 0;
    if (!height) return { height: 0, first: 0, last: 0 };
    const top = this.body.getBoundingClientRect().top;
    return { height, first: -top / height - 1, last: (innerHeight - top) / height };
  }

  removeGone() {
    for (const [member, row] of this.rows) {
      if (this.held.has(member)) continue;
      row.node.remove();
      this.rows.delete(member);
    }
  }

  put(member, place, seen) {
    const entry = this.held.get(member);
    const known = this.rows.get(member);
    const row = known ?? this.newRow(entry);
    if (this.body.children[place] !== row.node) this.body.insertBefore(row.node, this.body.children[place] ?? null);
    const before = { place: row.place, rank: row.rank };
    const isScored = row.update(entry, place, this.shareOf(entry));
    if (seen && !still.matches) animate(row, known && before, isScored, seen);
  }

  newRow(entry) {
    const row = new Row(entry, this.board.columns, this.linkTo(entry.member), entry.member === this.own);
    this.rows.set(entry.member, row);
    return row;
  }

  /** Returns a score as a fraction of the leader's, approximately, for its bar; null without bars. */
  shareOf(entry) {
    const [column, second] = this.board.columns;
    if (second || column.order !== "desc" || this.own !== null) return null;
    const most = Number(this.held.get(this.order[0]).score);
    return most > 0 ? Math.min(Math.max(Number(entry.score) / most, 0), 1) : null;
  }

  sayLeader(before) {
    const now = this.order[0];
    if (before === undefined || now === undefined || now === before || this.own !== null) return;
    if (performance.now() - this.saidAt < SAY_EVERY_MS) return;
    this.saidAt = performance.now();
    say(`${now} leads`);
  }
}

class Row {
  constructor(entry, columns, link, isOwn) {
    this.rankText = el("span", { class: "number" });
    this.trend = el("span", { class: "trend", "aria-hidden": "true" });
    this.bar = el("span", { class: "share", "aria-hidden": "true" });
    this.rankCell = el("td", { class: "rank" }, this.rankText, this.trend);
    this.cells = columns.map(() => el("td", { class: "figure" }));
    const name = el("a", { href: link, title: entry.member }, memberName(entry.member));
    this.node = el(
      "tr",
      { class: isOwn && "own", "aria-current": isOwn && "true", "data-member": entry.member },
      this.rankCell,
      el("th", { scope: "row", class: "who" }, name, this.bar),
      this.cells,
    );
    this.place = null;
    this.rank = null;
    this.score = null;
    this.flashing = null;
    this.fading = null;
  }

  /** Writes the changed cells of a row; returns whether the score changed. */
  update(entry, place, share) {
    const shown = figures(entry.score);
    const score = shown.join(" ");
    const isScored = this.score !== null && this.score !== score;
    const rank = Number(entry.rank);
    setText(this.rankText, grouped(entry.rank));
    if (rank <= 3) this.node.dataset.medal = rank;
    else delete this.node.dataset.medal;
    shown.forEach((figure, i) => setText(this.cells[i], figure));
    this.bar.hidden = share === null;
    if (share !== null) this.bar.style.setProperty("--share", share.toFixed(4));
    Object.assign(this, { place, rank, score });
    return isScored;
  }

  /** Moves a row by so many pixels to its position; rising rows are drawn above the others. */
  moveBy(pixels) {
    this.node.style.zIndex = pixels > 0 ? "1" : "";
    this.node.animate([{ transform: `translateY(${pixels}px)` }, { transform: "translateY(0)" }], MOVE);
  }

  flash() {
    this.flashing?.cancel();
    this.flashing = this.rankCell.animate([{ opacity: 1 }, { opacity: 0 }], FLASH);
  }

  showTrend(places) {
    this.trend.dataset.way = places > 0 ? "up" : "down";
    setText(this.trend, `${places > 0 ? "▲" : "▼"}${Math.abs(places)}`);
    this.fading?.cancel();
    this.fading = this.trend.animate([{ opacity: 1 }, { opacity: 1, offset: 0.8 }, { opacity: 0 }], TREND);
  }
}

function animate(row, before, isScored, seen) {
  const isSeen = (place) => place >= seen.first && place <= seen.last;
  if (!before) {
    if (isSeen(row.place)) row.node.animate([{ opacity: 0 }, { opacity: 1 }], FADE);
    return;
  }
  if (!isSeen(before.place) && !isSeen(row.place)) return;
  if (before.place !== row.place) row.moveBy((before.place - row.place) * seen.height);
  if (isScored) row.flash();
  if (before.rank !== row.rank) row.showTrend(before.rank - row.rank);
}
