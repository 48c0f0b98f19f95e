// The search for a member. Ids are matched exactly, and a member that is not found is reported
// before the page changes.

import { ask, boardPath, url } from "./api.js";
import { el, field, memberName } from "./dom.js";
import { linkTo } from "./windows.js";

const MOST_SUGGESTED = 5;

/**
 * Creates the form. `query` has the window and the scope as parameters of addresses, `asked` as
 * parameters of API queries. `listed` returns the members on the page; if no member is found, those
 * with similar ids are suggested.
 */
export function findForm(board, query, asked, listed, signal) {
  const result = el("div", { class: "result", "aria-live": "polite" });
  const find = async (event) => {
    event.preventDefault();
    const typed = new FormData(event.target).get("member");
    const text = typed.trim() || typed;
    try {
      const found = await ranked(board, asked, [typed, text], signal);
      const member = [typed, text].find((each) => found.includes(each));
      if (member !== undefined) {
        location.hash = linkTo(board.name, { ...query, member });
        return;
      }
      const like = await ranked(board, asked, spellings(text), signal);
      const link = (each) => linkTo(board.name, { ...query, member: each });
      result.replaceChildren(notFound(text, [...like, ...listed().filter(isLike(text))], link));
    } catch (error) {
      if (error.name !== "AbortError") result.replaceChildren(el("p", { role: "alert" }, error.message));
    }
  };
  return el(
    "form",
    { class: "panel find", role: "search", onsubmit: find },
    field("Find a member", { name: "member", type: "search", required: true, spellcheck: "false", "data-focus": "find" }),
    el("button", { type: "submit" }, "Find"),
    result,
  );
}

/**
 * Returns the members that are ranked in the window and scope, or else in any window, one query
 * each.
 */
async function ranked(board, asked, members, signal) {
  const sought = [...new Set(members)];
  const page = await ask(url(boardPath(board.name, "standings"), asked), { body: sought, signal });
  if (page.entries.length) return page.entries.map(({ member }) => member);
  const { window: _, ...scope } = asked;
  const found = await Promise.all(sought.map((member) => isAnywhere(board, scope, member, signal)));
  return sought.filter((_member, i) => found[i]);
}

async function isAnywhere(board, scope, member, signal) {
  const { windows } = await ask(url(boardPath(board.name, "card"), { ...scope, member }), { signal });
  return Object.values(windows).some(Boolean);
}

/** Returns spellings of a text that an id may have, such as in lower case. */
function spellings(text) {
  const lower = text.toLowerCase();
  return [lower, text.toUpperCase(), lower.charAt(0).toUpperCase() + lower.slice(1)];
}

function isLike(text) {
  const sought = text.toLowerCase();
  return (member) => member.toLowerCase().includes(sought);
}

function notFound(text, like, link) {
  const suggested = [...new Set(like)].slice(0, MOST_SUGGESTED);
  return el(
    "div",
    { class: "notice" },
    el("p", { class: "what" }, memberName(text), " is in no ranking of this board."),
    suggested.length
      ? el("p", {}, "Similar ids: ", suggested.flatMap((member) => [el("a", { href: link(member) }, memberName(member)), " "]))
      : el("p", {}, "An id has to match exactly, including capitals and spaces."),
  );
}
