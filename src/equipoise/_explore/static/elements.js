// Small helpers to build elements. Text is always text: nothing that comes from elsewhere is parsed as HTML.
export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function bar(share, { now = false, mark = null } = {}) {
  const filled = make("b");
  filled.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  const element = make("div", { class: now ? "bar now" : "bar" }, filled);
  if (mark !== null) {
    const line = make("u");
    line.style.left = `calc(${100 * mark}% - 1px)`;
    element.append(line);
  }
  return element;
}
