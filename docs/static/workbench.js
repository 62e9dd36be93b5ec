// The theme's toggles in the list of pages have no name for a screen reader.
for (const toggle of document.querySelectorAll("nav details > summary")) {
  const page = toggle.closest("li").querySelector("a").textContent.trim();
  toggle.setAttribute("aria-label", `Pages below ${page}`);
}
