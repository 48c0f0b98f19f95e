// The view for a token that only submits for one member. Such a token reads nothing, so the view has
// a form and no list, and does not know the columns of the board.

import { el, field, memberName } from "./dom.js";
import { figures } from "./exact.js";
import { receiptNode, sender, submitted } from "./submit.js";
import { linkTo } from "./windows.js";

/** The boards of the token that it names in full. */
export function submissionBoardsView(caller) {
  const names = caller.boards.filter((name) => !name.includes("*"));
  return {
    title: "Submit",
    nodes: [
      el("header", { class: "head" }, el("h1", { tabindex: "-1" }, "Submit for ", memberName(caller.member))),
      el("ul", { class: "cards" }, names.map((name) => el("li", { class: "panel card" }, el("h2", {}, el("a", { href: linkTo(name) }, name))))),
      names.length < caller.boards.length
        ? el("p", { class: "muted" }, "The key also submits to other boards: open the address of one.")
        : null,
    ],
  };
}

/** The form for one board. */
export function submissionView(board, caller, signal) {
  const result = el("div", { class: "result", "aria-live": "polite" });
  const send = sender(board, {}, signal);
  const submit = (event) =>
    submitted(event, result, async (fields) => {
      const values = fields.get("value").split(",").map((value) => value.trim());
      const receipt = await send(caller.member, values.length > 1 ? values : values[0]);
      return receiptNode(receipt, (score) => figures(score).join(", "));
    });
  const form = el(
    "form",
    { class: "panel narrow", "aria-labelledby": "submit-title", onsubmit: submit },
    el("h2", { id: "submit-title" }, "Submit a score"),
    el("p", {}, "For ", memberName(caller.member)),
    field("Value; of several columns, with commas between them", { name: "value", required: true, "data-focus": "submit" }),
    el("button", { class: "primary", type: "submit" }, "Submit"),
    result,
  );
  return {
    title: board,
    nodes: [
      el("nav", { class: "crumbs", "aria-label": "Path" }, el("a", { href: "#/" }, "Boards")),
      el("header", { class: "head" }, el("h1", { tabindex: "-1" }, board)),
      el("p", { class: "muted" }, "This key only submits, so the list is not shown."),
      form,
    ],
  };
}
