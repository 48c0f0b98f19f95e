// The key. It is requested when the server requires one, and kept while the page is open.

import { key } from "./api.js";
import { el, field } from "./dom.js";

const IN_FRAGMENT = /^#key=([^&]+)$/;

/**
 * Takes the key from a link such as `/#key=lk_…`, and removes it from the address and the history.
 * Browsers send no fragment to a server, so the key appears in no log.
 */
export function takeKeyFromAddress() {
  const found = IN_FRAGMENT.exec(location.hash);
  if (!found) return;
  key.set(decodeURIComponent(found[1]));
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
}

/** Creates a form for the key; calls `entered` when the key has been stored. */
export function keyForm(error, entered) {
  const input = field("Key", { type: "password", name: "key", required: true, spellcheck: "false" });
  const wasGiven = key.get() !== null;
  const form = el(
    "form",
    { class: "panel narrow", onsubmit: (event) => keep(event, entered) },
    el("h1", { tabindex: "-1" }, "This server asks for a key"),
    el("p", { class: "muted" }, "It stays in this tab, and is sent to this server alone."),
    wasGiven ? el("p", { class: "notice bad", role: "alert" }, error.problem.what) : null,
    input,
    el("button", { class: "primary", type: "submit" }, "Continue"),
  );
  return { node: form, input: input.querySelector("input") };
}

function keep(event, entered) {
  event.preventDefault();
  key.set(new FormData(event.target).get("key").trim());
  entered();
}
