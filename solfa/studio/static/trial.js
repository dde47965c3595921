// A trial of a listening test: keys play, switch at the same place in time, and answer.

const form = document.querySelector("form[data-trial]");
const sections = [...form.querySelectorAll("[data-place]")];
const player = (section) => section.querySelector("audio");
let current = null;

/** Play a sound from where the last one was, so that two can be compared at one place. */
function play(section) {
  const at = current && current !== section ? player(current).currentTime : player(section).currentTime;
  const audio = player(section);
  const wasPlaying = current !== null && !player(current).paused;
  if (current && current !== section) player(current).pause();
  if (current !== section) audio.currentTime = wasPlaying ? Math.min(at, audio.duration || at) : 0;
  if (audio.ended) audio.currentTime = 0;
  current = section;
  for (const one of sections) one.classList.toggle("playing", one === section);
  section.querySelector("input[type=range]")?.focus({ preventScroll: true });
  start(audio);
}

function start(audio) {
  audio.play().catch((error) => {
    if (error.name !== "AbortError") throw error; // another key was pressed
  });
}

function choose(value) {
  form.querySelector(`button[name=chosen][value="${value}"]`)?.click();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const section = sections.find((one) => one.dataset.place === event.key.toLowerCase());
  const isPair = form.dataset.kind === "pair";
  if (section) play(section);
  else if (event.key === " " && current) player(current).paused ? start(player(current)) : player(current).pause();
  else if (isPair && event.key === "ArrowLeft") choose("1");
  else if (isPair && event.key === "ArrowRight") choose("2");
  else if (isPair && event.key === "ArrowDown") choose("none");
  else if (!isPair && event.key === "Enter") form.requestSubmit(form.querySelector("button[name=rated]"));
  else return;
  event.preventDefault();
});

for (const section of sections) {
  player(section).addEventListener("play", () => {
    current = section;
    for (const one of sections) one.classList.toggle("playing", one === section);
  });
  // Keys are for the test, not for a player that was clicked.
  player(section).addEventListener("keydown", (event) => event.key === " " && event.preventDefault());
}
for (const range of form.querySelectorAll("input[type=range]")) {
  range.addEventListener("input", () => {
    range.parentElement.querySelector("output").textContent = range.value;
  });
}
document.querySelector(".keys").hidden = false; // from now on they are listened to
