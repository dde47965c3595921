// Jobs: `<div data-jobs="ADDRESS">` hears how far they are; a card changes when its job does.
import { fetchPage, replaceParts, showConnection } from "./fragments.js";

const ended = (state) => state !== "waiting" && state !== "running";

export function followJobs() {
  const region = document.querySelector("[data-jobs]");
  if (!region) return;
  let waiting = false;

  async function refresh() {
    try {
      replaceParts(await fetchPage(location.href), region);
    } catch {
      return; // the server is gone; the source says so, and when it is back
    }
    waiting = region.querySelector("[data-job]") !== null && isPlaying(region);
  }

  function show(job) {
    const shown = region.querySelector(`[data-job="${CSS.escape(job.key)}"]`);
    if (!shown) return false;
    if (shown.dataset.state !== job.state) return true;
    const bar = shown.querySelector("progress");
    if (job.share === null) {
      if (job.state === "running") bar.removeAttribute("value");
    } else {
      bar.value = job.share;
      shown.querySelector(".job-share").textContent = `${Math.round(100 * job.share)} %`;
    }
    if (job.note) shown.querySelector(".job-note").textContent = job.note;
    return ended(job.state);
  }

  let source = null;

  function listen() {
    if (source) return;
    source = new EventSource(region.dataset.jobs);
    source.addEventListener("changed", (event) => {
      if (JSON.parse(event.data).map(show).some(Boolean)) refresh();
    });
    source.addEventListener("open", () => {
      showConnection(true);
      if (region.querySelector("[data-job]")) refresh(); // a server that was started again knows no jobs
    });
    source.addEventListener("error", () => {
      showConnection(false);
      // A browser gives up on some errors; we do not.
      if (source?.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(listen, 1000);
      }
    });
  }

  // A browser keeps six connections to a server for all its pages: one that nobody looks at gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else {
      listen();
    }
  });
  listen();
  // A card in which somebody listened was left alone; now it may change.
  document.addEventListener("pause", () => waiting && refresh(), true);
}

function isPlaying(region) {
  return [...region.querySelectorAll("audio")].some((player) => !player.paused);
}
