// The periods of a window: those that the server has in memory and those in its archive, the choice
// of one of them, and its state.

import { ask, boardPath, url } from "./api.js";
import { el, say } from "./dom.js";
import { grouped } from "./exact.js";
import { isScoped, queryOf } from "./scopes.js";
import { instantText, linkTo } from "./windows.js";

const ARCHIVED = 200;
const SEARCHED = 1000;
const MORE = "+"; // no period has this label
const STATES = {
  open: "Open",
  grace: "Grace: late events count",
  final: "Final",
  closed: "Closed, not sealed yet",
  sealed: "Sealed",
};

/** Returns whether the rankings of a window are cut into calendar periods. */
export function isCalendar(window) {
  return !["all", "rolling", "decay"].includes(window.type);
}

/** The periods of a window, newest first; `next` is the place in the archive of those not read yet. */
export class Periods {
  constructor(board, window, scope) {
    Object.assign(this, { board, window, scope });
    this.all = [];
    this.next = null;
  }

  /** Reads the periods in memory and the newest archived ones; further ones until `wanted` is found. */
  static async read(board, window, scope, wanted, signal) {
    const periods = new Periods(board, window, scope);
    const asked = { window: window.name, ...queryOf(scope) };
    const [kept] = await Promise.all([
      ask(url(boardPath(board.name, "periods"), asked), { signal }),
      window.closes ? periods.readArchive(ARCHIVED, signal) : null,
    ]);
    periods.add(kept);
    while (wanted && periods.next !== null && !periods.find(wanted)) await periods.readArchive(SEARCHED, signal);
    return periods;
  }

  /** Reads a page of the archive; returns the number of periods that are new. */
  async readArchive(limit, signal) {
    const { board, window } = this;
    const query = { window: window.name, limit, offset: this.next ?? 0 };
    const page = await ask(url(boardPath(board.name, "archive"), query), { signal });
    this.next = page.length === limit ? Number(query.offset) + limit : null;
    const before = this.all.length;
    this.add(page.map(({ period, ...sealed }) => ({ ...sealed, label: period, state: "sealed", waits_for: [] })));
    return this.all.length - before;
  }

  /** Reads the state of a period again. */
  async again(label, signal) {
    const asked = { window: this.window.name, ...queryOf(this.scope) };
    this.add(await ask(url(boardPath(this.board.name, "periods"), asked), { signal }));
    return this.find(label);
  }

  add(periods) {
    const known = new Map(this.all.map((period) => [period.label, period]));
    for (const period of periods) known.set(period.label, { ...known.get(period.label), ...period });
    this.all = [...known.values()].sort((one, other) => Number(other.end_ms) - Number(one.end_ms));
  }

  find(label) {
    return this.all.find((period) => period.label === label);
  }

  get current() {
    return this.all.find(({ current }) => current);
  }

  /** Creates the choice of a period; none if there is only one. `shown` is the chosen one. */
  select(shown, signal) {
    if (this.all.length < 2) return null;
    const { board, scope, window } = this;
    const query = { window: window.name, ...(isScoped(board) ? queryOf(scope) : {}) };
    const select = el("select", { "data-focus": "period" });
    const fill = () => {
      const more = this.next === null ? [] : [el("option", { value: MORE }, "Earlier periods…")];
      select.replaceChildren(...this.all.map((period) => this.option(period, shown)), ...more);
    };
    select.addEventListener("change", async () => {
      if (select.value !== MORE) {
        location.hash = linkTo(board.name, { ...query, period: select.value });
        return;
      }
      const count = await this.readArchive(SEARCHED, signal);
      fill();
      say(`${grouped(count)} earlier periods can be chosen`);
    });
    fill();
    return el("label", { class: "field inline" }, el("span", {}, "Period"), select);
  }

  option({ label, current, total, entries }, shown) {
    const count = total ?? (isScoped(this.board) ? null : entries);
    const text = `${current ? `Now: ${label}` : label}${count === null ? "" : ` (${grouped(count)})`}`;
    return el("option", { value: current ? "" : label, selected: label === shown.label }, text);
  }
}

/** Returns the state of a period, its end, and its seal, as pairs of a list. */
export function periodFigures(period, window) {
  const isOver = !period.current || period.final;
  const here = `${instantText(period.end_ms)} by the clock of this browser`;
  const waited = period.waits_for.join(", ");
  return [
    period.label ? el("div", {}, el("dt", {}, "Period"), el("dd", {}, period.label)) : null,
    el("div", {}, el("dt", {}, "State"), el("dd", { "data-state": period.state }, STATES[period.state])),
    waited && !period.current ? el("div", {}, el("dt", {}, "Waits for"), el("dd", {}, waited)) : null,
    el(
      "div",
      {},
      el("dt", {}, isOver ? "Ended" : "Ends"),
      el("dd", { title: here }, instantText(period.end_ms, window.zone)),
    ),
    Number(period.revision ?? 0)
      ? el("div", {}, el("dt", {}, "Revision"), el("dd", {}, grouped(period.revision)))
      : null,
    period.digest
      ? el("div", { class: "digest" }, el("dt", {}, `Digest of ${grouped(period.entries)} entries`), el("dd", {}, el("code", {}, period.digest)))
      : null,
  ];
}
