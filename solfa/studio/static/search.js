// Search as one types: `<form data-as-typed>` shows its results without being sent.
import { fetchPage, replaceParts, showConnection } from "./fragments.js";

const WAIT_MS = 120;

export function searchAsTyped() {
  for (const form of document.querySelectorAll("form[data-as-typed]")) follow(form);
}

function follow(form) {
  let timer = 0;
  let running = new AbortController();

  async function search() {
    running.abort();
    running = new AbortController();
    const filled = [...new FormData(form)].filter(([, value]) => value !== "");
    const query = new URLSearchParams(filled).toString();
    const address = form.action.split("?")[0] + (query ? `?${query}` : "");
    form.setAttribute("aria-busy", "true");
    try {
      const page = await fetchPage(address, running.signal);
      history.replaceState(null, "", address);
      replaceParts(page);
      showConnection(true);
      form.removeAttribute("aria-busy");
    } catch (error) {
      if (error.name === "AbortError") return; // another key was pressed
      showConnection(false);
      timer = setTimeout(search, 1000);
    }
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, WAIT_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    search();
  });
}
