// The router: a view for each route, and the parts that all views share.

import { key } from "./api.js";
import { boardView } from "./board.js";
import { boardsView } from "./boards.js";
import { el, problemNotice } from "./dom.js";
import { keyForm, takeKeyFromAddress } from "./key.js";
import { memberView } from "./member.js";
import { decoded } from "./windows.js";

const main = document.getElementById("main");
const forget = document.getElementById("forget");
let leaving = new AbortController();
let shown = null;

/** Parses the fragment of an address, the part after #. */
function routeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [first, board] = path.split("/").map(decoded);
  const parameters = Object.fromEntries(new URLSearchParams(query));
  if (first !== "boards" || !board) return { view: boardsView, query: parameters };
  return { view: parameters.member ? memberView : boardView, board, query: parameters };
}

async function show() {
  takeKeyFromAddress();
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const failed = (error) => signal.aborted || fail(error);
  forget.hidden = key.get() === null;
  main.setAttribute("aria-busy", "true");
  try {
    const route = routeOf(location.hash);
    const view = await route.view(route, signal);
    if (signal.aborted) return;
    place(view.title, view.nodes);
    await view.start?.(failed, show);
  } catch (error) {
    failed(error);
  }
}

/** Shows a view, and restores the focus, or else moves it to the heading. */
function place(title, nodes) {
  const focus = main.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  main.replaceChildren(...nodes.filter(Boolean));
  main.removeAttribute("aria-busy");
  document.title = `${title} · laurels`;
  const same = focus && main.querySelector(`[data-focus="${CSS.escape(focus)}"]`);
  if (same) same.focus({ preventScroll: true });
  else if (shown !== null) main.querySelector("h1")?.focus({ preventScroll: true });
  if (!same) scrollTo(0, 0);
  shown = title;
}

function fail(error) {
  leaving.abort();
  if (error.problem?.code === "unauthorized") {
    const { node, input } = keyForm(error, show);
    place("Key", [node]);
    input.focus();
    return;
  }
  place("Not shown", [
    el("h1", { tabindex: "-1" }, "This cannot be shown"),
    problemNotice(error),
    el("p", {}, el("button", { type: "button", onclick: show }, "Try again"), " ", el("a", { href: "#/" }, "All boards")),
  ]);
}

forget.addEventListener("click", () => {
  key.forget();
  show();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);
show();
