// Players and pictures: say why one cannot be shown, and play one sound at a time.

export function explainSounds() {
  // Errors of media do not bubble; they can be caught on their way down.
  document.addEventListener("error", explain, true);
  document.addEventListener("play", silenceOthers, true);
}

/** `<button data-sound="ADDRESS">` plays a sound, or pauses it. */
export function playButtons() {
  const player = new Audio();
  let button = null;

  const show = (isPlaying) => button?.setAttribute("aria-pressed", String(isPlaying));
  player.addEventListener("play", () => show(true));
  for (const name of ["pause", "ended", "emptied"]) player.addEventListener(name, () => show(false));
  document.addEventListener("play", () => player.pause(), true);

  async function play(pressed) {
    show(false);
    button = pressed;
    player.src = pressed.dataset.sound;
    pressed.setAttribute("aria-busy", "true");
    try {
      await player.play();
    } catch (error) {
      if (error.name !== "AbortError") pressed.after(note(await reason(pressed.dataset.sound)));
    }
    pressed.removeAttribute("aria-busy");
  }

  document.addEventListener("click", (event) => {
    const pressed = event.target.closest("button[data-sound]");
    if (!pressed) return;
    if (pressed === button && !player.paused) player.pause();
    else play(pressed);
  });
}

async function reason(address) {
  try {
    const answer = await fetch(address);
    return answer.ok ? "This browser cannot play it." : await answer.text();
  } catch {
    return "The studio does not answer.";
  }
}

function note(sentence) {
  const made = document.createElement("p");
  made.className = "alarm";
  made.setAttribute("role", "alert");
  made.textContent = sentence;
  return made;
}

async function explain(event) {
  const medium = event.target;
  if (!(medium instanceof HTMLImageElement || medium instanceof HTMLMediaElement) || medium.dataset.explained) return;
  medium.dataset.explained = "yes";
  medium.replaceWith(note(await reason(medium.currentSrc || medium.src)));
}

function silenceOthers(event) {
  for (const player of document.querySelectorAll("audio")) {
    if (player !== event.target) player.pause();
  }
}
