// The entries below the live part of a ranking. They are read page by page and not updated.

import { ask, boardPath, url } from "./api.js";
import { el } from "./dom.js";
import { Ranking } from "./ranking.js";

const PAGE = 500;
const NOBODY = ""; // no row is highlighted, and no bars are drawn: they would be relative to the first row here

export class Further {
  /** `query` has the window and the scope; `live` is the number of live entries above. */
  constructor(board, query, live, caption, linkTo, who) {
    Object.assign(this, { board, query, live });
    this.after = null;
    this.isAtEnd = false;
    this.ranking = new Ranking(board, caption, linkTo, NOBODY, who);
    this.readAt = el("span");
    this.node = el("div", { class: "further", hidden: true });
  }

  /** Reads the next page; the first one begins at the current end of the live part. */
  async readMore(signal) {
    const address = (given) => url(boardPath(this.board.name, "top"), { ...this.query, ...given });
    if (this.after === null) this.after = (await ask(address({ limit: this.live }), { signal })).next;
    const page = await ask(address({ limit: PAGE, after: this.after }), { signal });
    this.after = page.next;
    this.isAtEnd = page.next === null;
    this.show();
    this.readAt.textContent = new Date().toLocaleTimeString();
    this.ranking.append(page.entries);
  }

  show() {
    if (!this.node.hidden) return;
    const text = ["The entries below are not updated. They were read at ", this.readAt, "."];
    this.node.append(el("p", { class: "muted" }, text), this.ranking.node);
    this.node.hidden = false;
  }
}
