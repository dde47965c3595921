// Parts of a page that the server renders again: `<div data-part="NAME">` is replaced by the same part of a page.

const connection = () => document.getElementById("connection");

export function showConnection(isThere) {
  connection().hidden = isThere;
}

/** Fetch a page of this studio and return its document; throws if the server does not answer. */
export async function fetchPage(address, signal) {
  const answer = await fetch(address, { signal, headers: { accept: "text/html" } });
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

/** Put the parts of a fetched page in the place of those on this one; parts that are the same stay as they are. */
export function replaceParts(page, within = document) {
  for (const old of within.querySelectorAll("[data-part]")) {
    const found = page.querySelector(`[data-part="${CSS.escape(old.dataset.part)}"]`);
    if (!found || found.innerHTML === old.innerHTML || isInUse(old)) continue;
    const restore = remembered(old);
    old.replaceChildren(...document.adoptNode(found).childNodes);
    restore();
  }
}

/** Nobody is interrupted who listens to a part, or is typing or choosing in it. */
function isInUse(part) {
  const plays = [...part.querySelectorAll("audio")].some((player) => !player.paused && !player.ended);
  const active = document.activeElement;
  return plays || (part.contains(active) && active.matches("input:not([type=checkbox]), select, textarea"));
}

/** Note what is ticked and where the keyboard is; returns a function that puts both back. */
function remembered(part) {
  const reachable = () => [...part.querySelectorAll("a[href], button, input, audio, [tabindex]")];
  const ticked = [...part.querySelectorAll("input:checked")].map((box) => box.value);
  const place = reachable().indexOf(document.activeElement);
  return () => {
    for (const box of part.querySelectorAll("input[type=checkbox]")) box.checked = ticked.includes(box.value);
    if (place >= 0) reachable()[place]?.focus({ preventScroll: true });
  };
}
