// A member's card: every window, the score needed to move up, and the neighbours.

import { Refused, ask, boardPath, follow, url } from "./api.js";
import { boardView } from "./board.js";
import { callerAnd } from "./caller.js";
import { el, memberName, setText } from "./dom.js";
import { estimateText, gapText, grouped, isZero, scoreText, signed, topPercent } from "./exact.js";
import { memberModeration } from "./moderation.js";
import { Ranking } from "./ranking.js";
import { isScoped, queryOf, rowLink, scopeIn, scopeText } from "./scopes.js";
import { submissionView } from "./submission.js";
import { linkTo, titleOf, windowsOf } from "./windows.js";

const AIM = 10;
const RADIUS = 5;
const LEAST_MS = 400;
const NEIGHBOURS_MS = 5000;
const STATES = { live: "Live", waiting: "Reconnecting", paused: "Paused", absent: "Not ranked" };

export async function memberView(route, signal) {
  const [caller, board] = await callerAnd(() => ask(boardPath(route.board), { signal }), signal);
  if (caller.member !== null) return submissionView(route.board, caller, signal);
  const windows = windowsOf(board);
  const window = windows.find(({ name }) => name === route.query.window) ?? windows[0];
  const scope = scopeIn(board, route.query);
  if (scope.values === null) return boardView(route, signal);
  const view = new MemberView(board, scope, windows, window, route.query.member, signal);
  view.administers = caller.administers && !scope.by;
  await view.refresh();
  return { title: route.query.member, nodes: view.nodes(), start: (failed) => view.follow(failed) };
}

class MemberView {
  constructor(board, scope, windows, window, member, signal) {
    Object.assign(this, { board, scope, windows, window, member, signal });
    this.query = isScoped(board) ? queryOf(scope) : {};
    this.cards = el("div", { class: "standings" });
    this.pill = el("p", { class: "pill", "data-state": "waiting" }, "Connecting");
    this.heading = el("h1", { tabindex: "-1" }, memberName(member));
    this.state = null;
    this.around = new Ranking(
      board,
      `Around ${member}`,
      (other) => rowLink(board, scope, window.name, other),
      member,
      scope.by ?? "Member",
    );
    this.neighbours = el(
      "section",
      { class: "panel list", "aria-labelledby": "around-title" },
      el("h2", { id: "around-title" }, `Neighbours, ${window.label}`),
      this.around.node,
    );
    this.isRanked = false;
    this.administers = false;
    this.timer = null;
    this.askedAt = 0;
  }

  nodes() {
    const back = linkTo(this.board.name, { window: this.window.name, ...this.query });
    return [
      el(
        "nav",
        { class: "crumbs", "aria-label": "Path" },
        el("a", { href: "#/" }, "Boards"),
        el("a", { href: back }, `${titleOf(this.board)}${scopeText(this.scope)}`),
      ),
      el("header", { class: "head" }, this.heading, this.pill),
      this.cards,
      this.neighbours,
      this.administers
        ? memberModeration(this.board, this.member, () => this.refresh(), this.signal)
        : null,
    ];
  }

  async refresh() {
    this.askedAt = performance.now();
    const { board, member, signal, window } = this;
    const query = { ...this.query, member, to_rank: AIM };
    const { windows } = await ask(url(boardPath(board.name, "card"), query), { signal });
    await this.aimBelowHead(windows);
    const needed = await this.neededToEnter(windows);
    const near = { ...this.query, member, window: window.name, radius: RADIUS };
    const isListed = windows[window.name] && !this.isBelowHead(windows[window.name]);
    const around = isListed ? await asked(url(boardPath(board.name, "around"), near), signal) : null;
    this.isRanked = Object.values(windows).some(Boolean);
    this.heading.classList.toggle("muted", !this.isRanked);
    this.showState();
    this.showCards(windows, needed);
    this.around.show(around?.entries ?? []);
    this.neighbours.hidden = around === null;
  }

  isBelowHead(standing) {
    return Boolean(this.board.head) && Number(standing.rank_low) > Number(this.board.head);
  }

  /** Adds, to the standings below the head of the board, what the member needs to enter the head. */
  async aimBelowHead(windows) {
    const { board, member, signal, query } = this;
    const below = Object.keys(windows).filter((name) => windows[name] && this.isBelowHead(windows[name]));
    if (!below.length) return;
    const aimed = await ask(url(boardPath(board.name, "card"), { ...query, member }), { signal });
    for (const name of below) windows[name] = aimed.windows[name];
  }

  /**
   * Returns the value of an event that a member without a score needs in the chosen window; null if
   * it cannot be computed.
   */
  async neededToEnter(standings) {
    const { board, member, window } = this;
    if (standings[window.name] || this.scope.by || !Object.values(standings).some(Boolean)) return null;
    const query = { ...this.query, member, window: window.name, rank: AIM };
    return (await asked(url(boardPath(board.name, "needed"), query), this.signal))?.needed ?? null;
  }

  showCards(standings, needed) {
    if (!this.isRanked) {
      const text =
        " is in no ranking of this board. An id has to match exactly, including capitals and spaces. " +
        "It is shown here as soon as it has a score.";
      this.cards.replaceChildren(el("p", { class: "notice" }, memberName(this.member), text));
      return;
    }
    const focus = document.activeElement?.dataset.focus;
    this.cards.replaceChildren(...this.windows.map((window) => this.standing(window, standings[window.name], needed)));
    if (focus) this.cards.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  }

  /** Shows the state of the connection, or that the member is not ranked. */
  showState() {
    if (this.state === null) return;
    const state = this.state === "live" && !this.isRanked ? "absent" : this.state;
    this.pill.dataset.state = state;
    setText(this.pill, STATES[state]);
  }

  standing(window, standing, needed) {
    const isCurrent = window.name === this.window.name;
    const link = el(
      "a",
      {
        href: linkTo(this.board.name, { window: window.name, ...this.query, member: this.member }),
        "aria-current": isCurrent && "page",
        "data-focus": `window ${window.name}`,
      },
      window.label,
    );
    return el(
      "article",
      { class: isCurrent ? "panel standing chosen" : "panel standing", "data-window": window.name },
      el("header", {}, el("h2", {}, link), standing ? el("span", { class: "badge" }, topPercent(standing.percent)) : null),
      standing ? this.figures(standing) : el("p", { class: "muted" }, "Not ranked in this window."),
      !standing && isCurrent && needed ? el("p", {}, needs(needed, this.board.columns)) : null,
    );
  }

  figures(standing) {
    const { columns } = this.board;
    const text = (gap) => gapText(gap, columns);
    const estimate = estimateText(standing.rank_low, standing.rank_high);
    const rank = estimate ? el("span", {}, estimate) : el("span", { class: "huge" }, `#${grouped(standing.rank)}`);
    return [
      el("p", { class: "place" }, rank, el("span", { class: "muted" }, `of ${grouped(standing.total)}`)),
      el("p", { class: "score" }, scoreText(standing.score, columns)),
      el(
        "ul",
        { class: "gaps" },
        beside(standing.above, text, "behind"),
        aim(standing, text, columns),
        beside(standing.below, text, "ahead of"),
      ),
    ];
  }

  follow(failed) {
    const handlers = {
      state: (state) => {
        this.state = state;
        this.showState();
      },
      failed,
      standing: ({ rank }) => {
        if (rank !== null || this.isRanked) this.refreshSoon(LEAST_MS, failed);
      },
    };
    const watched = { ...this.query, window: this.window.name, member: this.member, to_rank: AIM };
    follow(this.board.name, watched, handlers, this.signal);
    this.signal.addEventListener("abort", () => clearTimeout(this.timer));
    if (this.isRanked) this.refreshSoon(NEIGHBOURS_MS, failed);
  }

  /**
   * The feed reports only the moves of this member. Neighbours and other windows change without
   * them, so they are polled at intervals.
   */
  refreshSoon(wait, failed) {
    clearTimeout(this.timer);
    const due = Math.max(this.askedAt + wait - performance.now(), 0);
    this.timer = setTimeout(async () => {
      try {
        if (!document.hidden) await this.refresh();
      } catch (error) {
        if (error instanceof Refused) failed(error);
      }
      if (!this.signal.aborted && this.isRanked) this.refreshSoon(NEIGHBOURS_MS, failed);
    }, due);
  }
}

/**
 * Returns an answer, or null if the member is not ranked or listed, or if the effect of one event
 * cannot be computed.
 */
async function asked(address, signal) {
  try {
    return await ask(address, { signal });
  } catch (error) {
    if (["member_not_ranked", "member_hidden", "not_live", "beyond_head"].includes(error.problem?.code)) return null;
    throw error;
  }
}

function beside(neighbour, text, where) {
  if (!neighbour) return null;
  const gap = isZero(neighbour.gap) ? ["Level with "] : [el("b", {}, text(neighbour.gap)), ` ${where} `];
  return el("li", {}, gap, memberName(neighbour.member));
}

function aim(standing, text, columns) {
  if (standing.needed) return el("li", {}, needs(standing.needed, columns));
  if (!standing.to_rank || isZero(standing.to_rank.gap)) return null;
  return el("li", {}, el("b", {}, text(standing.to_rank.gap)), ` to rank ${standing.to_rank.rank}`);
}

/** Describes the event that is needed: an amount to add, or a value to score. */
function needs({ rank, value, column }, columns) {
  if (value === null) return [`Rank ${rank} is out of reach`];
  const { op } = columns.find(({ name }) => name === column);
  const shown = op === "sum" && !Array.isArray(value) ? signed(value) : scoreText(value, columns);
  return [el("b", {}, shown), ` for rank ${rank}`];
}
