/* Small helpers for elements. Text is always set as text, never as HTML. */

/** element("p", { class: "short", hidden: true }, "text", child): an element with attributes and children. */
export function element(tag, attributes = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) created.addEventListener(name.slice(2), value);
    else if (value === true) created.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) created.setAttribute(name, value);
  }
  created.append(...children.filter((child) => child !== null && child !== undefined));
  return created;
}

const SVG = "http://www.w3.org/2000/svg";

/** The symbol of a state, defined in the page. It has a text beside it, so it is hidden from screen readers. */
export function icon(name, more = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `icon ${more}`.trim());
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export const time = (instant, text) => element("time", { datetime: instant }, text);
