// The view of a board: the live top of a window, or the final standings of a past period.

import { ask, boardPath, follow, url } from "./api.js";
import { me } from "./caller.js";
import { el, setText } from "./dom.js";
import { grouped } from "./exact.js";
import { findForm } from "./find.js";
import { Further } from "./further.js";
import { Ranking } from "./ranking.js";
import { isScoped, queryOf, rowLink, scopeForm, scopeIn, scopeList, scopeText } from "./scopes.js";
import { submitForm } from "./submit.js";
import { instantText, linkTo, titleOf, windowsOf } from "./windows.js";

const LIMITS = [25, 50, 100, 200, 500, 1000];
const PAGE = 100;
const STATES = { live: "Live", waiting: "Reconnecting", paused: "Paused", past: "Past period" };

export async function boardView(route, signal) {
  const [board, caller] = await Promise.all([ask(boardPath(route.board), { signal }), me(signal)]);
  const windows = windowsOf(board);
  const window = windows.find(({ name }) => name === route.query.window) ?? windows[0];
  const scope = scopeIn(board, route.query);
  if (scope.values === null) return choosingView(board, scope, window, windows, signal);
  const asked = { window: window.name, ...queryOf(scope) };
  const periods = await ask(url(boardPath(board.name, "periods"), asked), { signal });
  const past = periods.find(({ label, current }) => label === route.query.period && !current);
  const view = new BoardView(board, scope, window, past ?? null, caller, signal);
  return {
    title: `${titleOf(board)}${scopeText(scope)}`,
    nodes: view.nodes(windows, periods),
    start: (failed, again) => (past ? view.showPast(past.label) : view.followTop(failed, again)),
  };
}

/** A board in a scope whose values have not been chosen yet. */
async function choosingView(board, scope, window, windows, signal) {
  return {
    title: `${titleOf(board)}${scopeText(scope)}`,
    nodes: [
      ...head(board, null),
      el(
        "div",
        { class: "bar" },
        windowTabs(board, scope, window, windows),
        scopeForm(board, scope, window, signal),
      ),
      await scopeList(board, scope, window, signal),
    ],
  };
}

function head(board, pill) {
  return [
    el("nav", { class: "crumbs", "aria-label": "Path" }, el("a", { href: "#/" }, "Boards")),
    el("header", { class: "head" }, el("h1", { tabindex: "-1" }, titleOf(board)), pill),
  ];
}

class BoardView {
  constructor(board, scope, window, past, caller, signal) {
    this.board = board;
    this.scope = scope;
    this.query = { window: window.name, ...queryOf(scope) };
    this.window = window;
    this.past = past;
    this.caller = caller;
    this.isCut = !["all", "rolling", "decay"].includes(window.type);
    this.period = null;
    this.signal = signal;
    this.limit = LIMITS[0];
    this.feed = null;
    this.total = el("dd", { class: "big", id: "total" }, "–");
    this.pill = el("p", { class: "pill", "data-state": past ? "past" : "waiting" }, past ? STATES.past : "Connecting");
    this.more = el("button", { type: "button", class: "more", hidden: true }, "Show more");
    this.empty = el("p", { class: "empty muted", hidden: true }, "Nobody is ranked here yet.");
    const caption = `${titleOf(board)}${scopeText(scope)}, ${past?.label ?? window.label}`;
    const link = (member) => rowLink(board, scope, window.name, member);
    const who = scope.by ?? "Member";
    this.ranking = new Ranking(board, caption, link, null, who);
    this.further = new Further(board, this.query, LIMITS.at(-1), `${caption}, further`, link, who);
  }

  nodes(windows, periods) {
    const { board, scope, window } = this;
    return [
      ...head(board, this.pill),
      el(
        "div",
        { class: "bar" },
        windowTabs(board, scope, window, windows),
        scopeForm(board, scope, window, this.signal),
        periodSelect(board, scope, window, this.past, periods),
      ),
      el(
        "div",
        { class: "split" },
        this.figures(periods),
        findForm(
          board,
          { window: window.name, ...scopeQuery(board, scope) },
          this.query,
          () => [...this.ranking.order, ...this.further.ranking.order],
          this.signal,
        ),
        el(
          "section",
          { class: "panel list", "aria-label": "Ranking" },
          this.ranking.node,
          this.further.node,
          this.empty,
          this.more,
        ),
        this.caller.maySubmit ? submitForm(board, scope, window.name, this.caller.member, this.signal) : null,
      ),
    ];
  }

  figures(periods) {
    const shown = this.past ?? periods.find(({ current }) => current);
    const isShown = this.isCut && shown !== undefined;
    this.period = shown?.label;
    const ends = isShown && [shown.current && !shown.final ? "Ends" : "Ended", instantText(shown.end_ms, this.window.zone)];
    const waited = isShown && this.past && shown.waits_for.join(", ");
    const here = isShown && `${instantText(shown.end_ms)} by the clock of this browser`;
    const { starts, ends: last, retain } = this.board;
    const limit = (name, text) =>
      text ? el("div", {}, el("dt", {}, name), el("dd", {}, instantText(Date.parse(text), this.window.zone))) : null;
    return el(
      "dl",
      { class: "figures" },
      el("div", {}, el("dt", {}, "Members"), this.total),
      this.board.head ? el("div", {}, el("dt", {}, "Listed"), el("dd", {}, `First ${grouped(this.board.head)}`)) : null,
      this.board.hide_zero ? el("div", {}, el("dt", {}, "Zeros"), el("dd", {}, "Not ranked")) : null,
      isShown ? el("div", {}, el("dt", {}, "Period"), el("dd", {}, shown.label)) : null,
      ends ? el("div", {}, el("dt", {}, ends[0]), el("dd", { title: here }, ends[1])) : null,
      waited ? el("div", {}, el("dt", {}, "Waits for"), el("dd", {}, waited)) : null,
      limit("Board starts", starts),
      limit("Board ends", last),
      retain ? el("div", {}, el("dt", {}, "Removed"), el("dd", {}, `${retain} after the end`)) : null,
    );
  }

  count(total, shown) {
    setText(this.total, grouped(total));
    this.empty.hidden = Number(total) > 0;
    return Math.min(Number(total), Number(this.board.head ?? 0) || Infinity) > shown;
  }

  // Live

  /** `again` redraws the page when a new period has begun. */
  followTop(failed, again) {
    this.feed?.abort();
    this.feed = new AbortController();
    this.more.onclick = () => this.followMore(failed, again);
    const signal = AbortSignal.any([this.signal, this.feed.signal]);
    const handlers = {
      state: (state) => this.setState(state),
      failed,
      top: (top) => {
        if (this.isCut && top.as_of.period !== this.period) {
          again();
          return;
        }
        this.ranking.show(top.entries);
        this.countLive(top.total);
      },
      change: (change) => {
        this.ranking.change(change);
        this.countLive(change.total);
      },
    };
    follow(this.board.name, { ...this.query, limit: this.limit }, handlers, signal);
  }

  followMore(failed, again) {
    if (this.limit === LIMITS.at(-1)) {
      this.readFurther(failed);
      return;
    }
    this.limit = LIMITS.find((limit) => limit > this.limit) ?? this.limit;
    this.followTop(failed, again);
  }

  countLive(total) {
    const isMore = this.count(total, this.limit);
    this.more.hidden = !isMore || this.further.isAtEnd;
  }

  async readFurther(failed) {
    this.more.disabled = true;
    try {
      await this.further.readMore(this.signal);
      this.more.hidden = this.further.isAtEnd;
    } catch (error) {
      failed(error);
    } finally {
      this.more.disabled = false;
    }
  }

  setState(state) {
    this.pill.dataset.state = state;
    setText(this.pill, STATES[state]);
  }

  // Past

  async showPast(period, after = null) {
    const query = { ...this.query, period, limit: PAGE, after };
    const page = await ask(url(boardPath(this.board.name, "top"), query), { signal: this.signal });
    this.ranking.append(page.entries);
    this.count(page.total, this.ranking.order.length);
    this.more.hidden = page.next === null;
    this.more.onclick = () => this.showPast(period, page.next);
  }
}

function windowTabs(board, scope, current, windows) {
  const links = windows.map((window) => {
    const isCurrent = window.name === current.name;
    return el(
      "a",
      {
        href: linkTo(board.name, { window: window.name, ...scopeQuery(board, scope) }),
        "aria-current": isCurrent && "page",
        "data-focus": `window ${window.name}`,
      },
      window.label,
    );
  });
  return el("nav", { class: "tabs", "aria-label": "Windows" }, links);
}

function periodSelect(board, scope, window, past, periods) {
  if (periods.length < 2) return null;
  const go = (event) => {
    const query = { window: window.name, ...scopeQuery(board, scope), period: event.target.value };
    location.hash = linkTo(board.name, query);
  };
  const options = periods.map(({ label, current, total }) => {
    const isChosen = past ? label === past.label : current;
    const text = `${current ? `Now: ${label}` : label} (${grouped(total)})`;
    return el("option", { value: current ? "" : label, selected: isChosen }, text);
  });
  return el(
    "label",
    { class: "field inline" },
    el("span", {}, "Period"),
    el("select", { "data-focus": "period", onchange: go }, options),
  );
}

/** Returns the scope's parameters for an address; none if the board has a single scope. */
function scopeQuery(board, scope) {
  return isScoped(board) ? queryOf(scope) : {};
}
