// The view of a board: the live top of a window, or the final standings of a past period.

import { Refused, ask, boardPath, follow, url } from "./api.js";
import { callerAnd } from "./caller.js";
import { el, setText } from "./dom.js";
import { grouped } from "./exact.js";
import { findForm } from "./find.js";
import { Further } from "./further.js";
import { disqualifyForm, hiddenPanel } from "./moderation.js";
import { Payouts } from "./payouts.js";
import { Periods, isCalendar, periodFigures } from "./periods.js";
import { Winners, prizesIn, prizeBands } from "./prizes.js";
import { Ranking } from "./ranking.js";
import { isScoped, queryOf, rowLink, scopeForm, scopeIn, scopeList, scopeText } from "./scopes.js";
import { storyOf } from "./story.js";
import { submissionView } from "./submission.js";
import { submitForm } from "./submit.js";
import { instantText, linkTo, titleOf, windowsOf } from "./windows.js";

const LIMITS = [25, 50, 100, 200, 500, 1000];
const PAGE = 100;
const STATE_MS = 5000;
const STATES = { live: "Live", waiting: "Reconnecting", paused: "Paused", past: "Past period" };

export async function boardView(route, signal) {
  const [caller, board] = await callerAnd(() => ask(boardPath(route.board), { signal }), signal);
  if (caller.member !== null) return submissionView(route.board, caller, signal);
  const windows = windowsOf(board);
  const window = windows.find(({ name }) => name === route.query.window) ?? windows[0];
  const scope = scopeIn(board, route.query);
  if (scope.values === null) return choosingView(board, scope, window, windows, signal);
  const hasPeriods = isCalendar(window) || window.closes;
  const wanted = hasPeriods ? route.query.period : undefined;
  const periods = await Periods.read(board, window, scope, wanted, signal);
  const chosen = periods.find(wanted);
  if (wanted && !chosen) await ensureReadable(board, { window: window.name, ...queryOf(scope), period: wanted }, signal);
  const past = chosen && !chosen.current ? chosen : null;
  const view = new BoardView(board, scope, window, past, caller, signal);
  return {
    title: `${titleOf(board)}${scopeText(scope)}`,
    nodes: view.nodes(windows, periods),
    start: (failed, again) => view.start(periods, failed, again),
  };
}

/** Throws Refused, with its reason, for a period that cannot be read. */
async function ensureReadable(board, query, signal) {
  await ask(url(boardPath(board.name, "top"), { ...query, limit: 1 }), { signal });
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
    this.isCut = isCalendar(window);
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
    this.winners = null;
    this.payouts = null;
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
        periods.select(this.past ?? periods.current, this.signal),
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
        this.prizePanel(),
        el(
          "section",
          { class: "panel list", "aria-label": "Ranking" },
          this.ranking.node,
          this.further.node,
          this.empty,
          this.more,
        ),
        this.caller.maySubmit ? submitForm(board, scope, window.name, this.signal) : null,
      ),
      this.caller.administers ? this.administration(windows) : null,
    ].flat();
  }

  /** Creates what only callers who administer may see: nothing of it is asked for others. */
  administration(windows) {
    const { board, scope, window, past, signal } = this;
    this.payouts = window.closes ? new Payouts(board, window, past, signal) : null;
    const isSealed = window.closes && Boolean(past?.sealed_ms);
    return [
      this.payouts?.node,
      isSealed ? storyOf(board, window, window === windows[0], past, signal) : null,
      isSealed ? disqualifyForm(board, window, scope, past, () => this.again(), signal) : null,
      past ? null : hiddenPanel(board, signal),
    ];
  }

  figures(periods) {
    const shown = this.past ?? periods.current;
    const isShown = (this.isCut || this.window.closes) && shown !== undefined;
    this.period = shown?.label;
    const { starts, ends: last, retain } = this.board;
    const limit = (name, text) =>
      text ? el("div", {}, el("dt", {}, name), el("dd", {}, instantText(Date.parse(text), this.window.zone))) : null;
    return el(
      "dl",
      { class: "figures" },
      el("div", {}, el("dt", {}, "Members"), this.total),
      this.board.head ? el("div", {}, el("dt", {}, "Listed"), el("dd", {}, `First ${grouped(this.board.head)}`)) : null,
      this.board.hide_zero ? el("div", {}, el("dt", {}, "Zeros"), el("dd", {}, "Not ranked")) : null,
      isShown ? periodFigures(shown, this.window) : null,
      limit("Board starts", starts),
      limit("Board ends", last),
      retain ? el("div", {}, el("dt", {}, "Removed"), el("dd", {}, `${retain} after the end`)) : null,
    );
  }

  /** Creates the list of prizes, and of those who win them; none if there are no prizes here. */
  prizePanel() {
    const prizes = prizesIn(this.window, this.scope);
    if (prizes === null) return null;
    const link = (member) => rowLink(this.board, this.scope, this.window.name, member);
    this.winners = new Winners(this.board, { ...this.query, period: this.past?.label }, this.past, link, this.signal);
    const isFrozen = ["closed", "sealed"].includes(this.past?.state);
    return el(
      "section",
      { class: "panel prizes", "aria-labelledby": "prizes-title" },
      el("h2", { id: "prizes-title" }, "Prizes"),
      isFrozen ? null : prizeBands(prizes, this.board.columns),
      this.winners.node,
    );
  }

  count(total, shown) {
    setText(this.total, grouped(total));
    this.winners?.changed();
    this.empty.hidden = Number(total) > 0;
    return Math.min(Number(total), Number(this.board.head ?? 0) || Infinity) > shown;
  }

  /** Shows the entries; `again` redraws the page. */
  async start(periods, failed, again) {
    this.again = again;
    this.payouts?.read();
    if (!this.past) {
      this.followTop(failed, again);
      return;
    }
    await this.showPast(this.past.label);
    this.watchState(periods, failed, again);
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

  /** Redraws the page when the state of the period has changed; the states of sealed and final ones do not. */
  watchState(periods, failed, again) {
    const { label, state } = this.past;
    if (["sealed", "final"].includes(state)) return;
    const look = async () => {
      try {
        const now = document.hidden ? this.past : await periods.again(label, this.signal);
        if (now?.state !== state) again();
        else if (!this.signal.aborted) this.timer = setTimeout(look, STATE_MS);
      } catch (error) {
        if (error instanceof Refused) failed(error);
        else this.timer = setTimeout(look, STATE_MS);
      }
    };
    this.timer = setTimeout(look, STATE_MS);
    this.signal.addEventListener("abort", () => clearTimeout(this.timer));
  }

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

/** Returns the scope's parameters for an address; none if the board has a single scope. */
function scopeQuery(board, scope) {
  return isScoped(board) ? queryOf(scope) : {};
}
