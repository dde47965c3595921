// Live pages: `<main data-events="ADDRESS">`. The server says that something has changed, the page fetches itself.
import { fetchPage, replaceParts, showConnection } from "./fragments.js";

export function watch() {
  const region = document.querySelector("[data-events]");
  if (!region) return;
  let source = null;
  let wanted = false;
  let fetching = false;

  async function refresh() {
    wanted = true;
    if (fetching) return;
    fetching = true;
    while (wanted) {
      wanted = false;
      try {
        replaceParts(await fetchPage(location.href), region);
      } catch {
        break; // the server is gone; the source says so, and when it is back
      }
    }
    fetching = false;
  }

  function listen() {
    if (source) return;
    source = new EventSource(region.dataset.events);
    source.addEventListener("changed", refresh);
    source.addEventListener("open", () => showConnection(true));
    source.addEventListener("error", () => {
      showConnection(false);
      // A browser gives up on some errors; we do not.
      if (source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(listen, 1000);
      }
    });
  }

  // A browser keeps six connections to a server for all its pages: one that nobody looks at gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) {
      source.close();
      source = null;
    } else if (!document.hidden) {
      listen();
    }
  });
  listen();
}
