// Make elements of the page. Text reaches the page as text nodes and attributes, never as HTML.

/** Creates an element with children and attributes; `onclick` and the like become listeners. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined));
  return node;
}

/** Sets a text only if it differs, to avoid a needless redraw. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A member's id, isolated from the writing direction of the text around it. */
export function memberName(member) {
  return el("bdi", { class: "member" }, member);
}

/** Announces a change to screen readers. */
export function say(text) {
  setText(document.getElementById("said"), text);
}

/** An error with its reason and what to do about it. */
export function problemNotice(error) {
  const { what, advice, code } = error.problem ?? {};
  if (!code) return el("div", { class: "notice bad", role: "alert" }, el("p", {}, error.message));
  return el(
    "div",
    { class: "notice bad", role: "alert" },
    el("p", { class: "what" }, what),
    el("p", {}, advice, " ", el("a", { href: `/docs#${code}` }, el("code", {}, code))),
  );
}

/** Creates a field with its label. */
export function field(label, attributes) {
  return el("label", { class: "field" }, el("span", {}, label), el("input", { autocomplete: "off", ...attributes }));
}
