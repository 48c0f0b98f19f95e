// The payouts of a window, for callers who administer: their state, and the confirmation that one
// was paid.

import { ask, boardPath, url } from "./api.js";
import { el, field, memberName, problemNotice, say } from "./dom.js";
import { grouped } from "./exact.js";
import { instantText } from "./windows.js";

const PAGE = 50;
const STATES = { pending: "Pending", due: "Due", confirmed: "Confirmed", superseded: "Superseded" };

/** The payouts of a window: of the period `past` or, without one, of all periods. */
export class Payouts {
  constructor(board, window, past, signal) {
    Object.assign(this, { board, window, past, signal });
    this.state = null;
    this.list = el("ul", { class: "rows" });
    this.none = el("p", { class: "muted", hidden: true }, "There are no such payouts.");
    this.problem = el("div", { class: "result" });
    this.more = el("button", { type: "button", class: "more", hidden: true }, "More payouts");
    this.node = el(
      "section",
      { class: "panel under", "aria-labelledby": "payouts-title", hidden: true },
      el("header", { class: "row" }, el("h2", { id: "payouts-title" }, "Payouts"), this.stateSelect()),
      this.list,
      this.none,
      this.problem,
      this.more,
    );
  }

  stateSelect() {
    const options = Object.entries(STATES).map(([value, text]) => el("option", { value }, text));
    const choose = (event) => {
      this.state = event.target.value || null;
      this.read();
    };
    return el(
      "label",
      { class: "field inline" },
      el("span", {}, "State"),
      el("select", { "data-focus": "payouts", onchange: choose }, el("option", { value: "" }, "All"), options),
    );
  }

  /** Reads a page of payouts, and replaces the list if it is the first one. */
  async read(after = null) {
    const { board, window, past, state, signal } = this;
    const query = { window: window.name, period: past?.label, state, after, limit: PAGE };
    try {
      const { payouts, next } = await ask(url(boardPath(board.name, "payouts"), query), { signal });
      const items = payouts.map((payout) => this.item(payout));
      if (after === null) this.list.replaceChildren(...items);
      else this.list.append(...items);
      this.none.hidden = this.list.children.length > 0;
      this.more.hidden = next === null;
      this.more.onclick = () => this.read(next);
      this.problem.replaceChildren();
      this.node.hidden = window.prizes === null && state === null && this.none.hidden === false;
    } catch (error) {
      if (signal.aborted) return;
      this.node.hidden = false;
      this.problem.replaceChildren(problemNotice(error));
    }
  }

  item(payout) {
    const item = el("li", { "data-payout": payout.state });
    item.append(
      el(
        "p",
        { class: "row" },
        memberName(payout.member),
        el("span", { class: "chip" }, el("bdi", {}, payout.prize), " ", el("b", {}, amountText(payout))),
        el("span", { class: "badge" }, STATES[payout.state]),
      ),
      el("p", { class: "muted small" }, this.detailsOf(payout).join(" · ")),
    );
    if (payout.state === "due") item.append(this.confirmForm(payout, item));
    return item;
  }

  detailsOf(payout) {
    const { zone } = this.window;
    const isOpen = ["pending", "due"].includes(payout.state);
    return [
      this.past ? null : payout.period,
      ...Object.entries(payout.labels).map(([label, value]) => `${label} ${value}`),
      `position ${grouped(payout.position)}`,
      payout.corrects ? "corrects a payout that was due before" : null,
      isOpen ? `due ${payout.state === "due" ? "since" : "at"} ${instantText(payout.due_ms, zone)}` : null,
      payout.superseded_by ? `superseded by revision ${payout.superseded_by}` : null,
      payout.reference ? `paid ${instantText(payout.confirmed_ms, zone)}, reference ${payout.reference}` : null,
    ].filter(Boolean);
  }

  confirmForm(payout, item) {
    const result = el("div", { class: "result", "aria-live": "polite" });
    const reference = field(`Reference of the payment to ${payout.member}`, { name: "reference", required: true, spellcheck: "false" });
    const confirm = async (event) => {
      event.preventDefault();
      const button = event.target.querySelector("button");
      button.disabled = true;
      try {
        const body = { payout: payout.id, reference: new FormData(event.target).get("reference").trim() };
        const address = boardPath(this.board.name, "payouts/confirm");
        const confirmed = await ask(address, { body, signal: this.signal });
        const paid = this.item(confirmed);
        item.replaceWith(paid);
        paid.tabIndex = -1;
        paid.focus();
        say(`The payout to ${payout.member} is confirmed`);
      } catch (error) {
        if (!this.signal.aborted) result.replaceChildren(problemNotice(error));
        button.disabled = false;
      }
    };
    const name = `Confirm ${payout.prize} for ${payout.member}`;
    return el("form", { class: "inline", onsubmit: confirm }, reference, el("button", { type: "submit", "aria-label": name }, "Confirm"), result);
  }
}

function amountText({ amount, withdrawn }) {
  if (withdrawn) return "taken back";
  return amount === null || amount === undefined ? "" : grouped(amount);
}
