// What the theme leaves out for those who read by ear or by keyboard: names for the copy buttons' landmarks, and tables that scroll by key.
const name = (root) => {
  for (const [i, nav] of root.querySelectorAll("nav.md-code__nav").entries()) nav.setAttribute("aria-label", `Code ${i + 1}`);
  for (const table of root.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
};
new MutationObserver(() => name(document)).observe(document.documentElement, { childList: true, subtree: true });
name(document);
