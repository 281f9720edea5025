// The English of the page, from one file that the saved page reads too.
let words = {};

export async function load() {
  const response = await fetch("/static/strings.json");
  words = await response.json();
}

export function t(key, values = {}) {
  return words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

export function fill(root) {
  for (const element of root.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
  for (const element of root.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
}

export const percent = (share) => `${Math.round(100 * share)} %`;
