// The list of boards.

import { ask, boardPath, url } from "./api.js";
import { callerAnd } from "./caller.js";
import { el, field, memberName } from "./dom.js";
import { grouped, scoreText } from "./exact.js";
import { queryOf, scopeIn } from "./scopes.js";
import { submissionBoardsView } from "./submission.js";
import { linkTo, titleOf, windowsOf } from "./windows.js";

const SEARCHED_FROM = 7;
const MOST_SHOWN = 120;

export async function boardsView(_route, signal) {
  const [caller, boards] = await callerAnd(() => ask("/v1/boards", { signal }), signal);
  if (caller.member !== null) return submissionBoardsView(caller);
  const list = el("ul", { class: "cards" });
  const rest = el("p", { class: "muted", role: "status" });
  const watcher = leaderWatcher(signal);
  const show = (text) => showMatching(boards, text, list, rest, watcher);
  show("");
  const search = boards.length >= SEARCHED_FROM ? searchField(show) : null;
  return {
    title: "Boards",
    nodes: [
      el("header", { class: "head" }, el("h1", { tabindex: "-1" }, "Boards"), search),
      boards.length ? list : emptyStore(),
      rest,
    ],
  };
}

function searchField(show) {
  const label = field("Search boards", { type: "search", placeholder: "Search boards", "data-focus": "search" });
  label.classList.add("search");
  label.querySelector("input").addEventListener("input", (event) => show(event.target.value));
  return label;
}

function showMatching(boards, text, list, rest, watcher) {
  const sought = text.trim().toLowerCase();
  const found = boards.filter((board) => `${board.name} ${board.title}`.toLowerCase().includes(sought));
  watcher.disconnect();
  list.replaceChildren(...found.slice(0, MOST_SHOWN).map((board) => card(board, watcher)));
  rest.textContent = restText(found.length, sought);
}

function restText(found, sought) {
  if (found > MOST_SHOWN) return `${grouped(found - MOST_SHOWN)} more: search to narrow them down.`;
  return found === 0 && sought ? "No board has this in its name or title." : "";
}

function card(board, watcher) {
  const title = titleOf(board);
  const figures = el("dl", { class: "pair" });
  figures.board = board;
  watcher.observe(figures);
  return el(
    "li",
    { class: "panel card" },
    el("h2", {}, el("a", { href: linkTo(board.name) }, title)),
    title === board.name ? null : el("p", { class: "muted mono" }, board.name),
    el("ul", { class: "chips" }, windowsOf(board).map((window) => el("li", {}, window.label))),
    figures,
  );
}

/** Fetches the leader of a board when its card scrolls into view. */
function leaderWatcher(signal) {
  const watcher = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      fill(target, signal);
    }
  });
  signal.addEventListener("abort", () => watcher.disconnect());
  return watcher;
}

async function fill(figures, signal) {
  const { board } = figures;
  const scope = scopeIn(board, {});
  if (scope.values === null) {
    figures.replaceChildren(el("div", {}, el("dt", {}, "Counted by"), el("dd", {}, scope.labels.join(", "))));
    return;
  }
  try {
    const page = await ask(url(boardPath(board.name, "top"), { ...queryOf(scope), limit: 1 }), { signal });
    figures.replaceChildren(...pairs(page, board));
  } catch (error) {
    if (!signal.aborted) figures.replaceChildren(el("div", {}, el("dt", {}, "Not read"), el("dd", {}, error.message)));
  }
}

function pairs(page, board) {
  const members = el("div", {}, el("dt", {}, "Members"), el("dd", { class: "big" }, grouped(page.total)));
  const [leader] = page.entries;
  if (!leader) return [members];
  return [
    members,
    el(
      "div",
      { class: "leader" },
      el("dt", {}, "Leader"),
      el("dd", {}, memberName(leader.member), el("span", { class: "muted" }, scoreText(leader.score, board.columns))),
    ),
  ];
}

function emptyStore() {
  const line = `curl -X PUT ${location.origin}/v1/boards/gifts --json '{"title":"Gifts","windows":["all","day"]}'`;
  return el(
    "section",
    { class: "panel empty" },
    el("h2", {}, "There is no board yet"),
    el("p", { class: "muted" }, "Make the first one:"),
    el("pre", {}, el("code", {}, line)),
  );
}
