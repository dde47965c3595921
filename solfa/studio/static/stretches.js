// Drag over a spectrogram to choose a stretch of time: `<div class="plot" data-stretch-seconds="2.5">`.
// Within `data-fills="from to"` it fills the fields of these names; within `data-stretch-link` it completes a link.

export function chooseStretches() {
  document.addEventListener("pointerdown", begin);
  for (const plot of document.querySelectorAll("[data-fills] .plot")) follow(plot);
}

function fields(plot) {
  const names = plot.closest("[data-fills]")?.dataset.fills.split(" ") ?? [];
  const form = plot.closest("form");
  return names.map((name) => form?.elements[name]).filter(Boolean);
}

/** Show what is typed. */
function follow(plot) {
  const [from, to] = fields(plot);
  if (!from || !to) return;
  const show = () => mark(plot, from.value === "" || to.value === "" ? null : [Number(from.value), Number(to.value)]);
  from.addEventListener("input", show);
  to.addEventListener("input", show);
  plot.querySelector("img").addEventListener("load", show);
  show();
}

function begin(event) {
  const plot = event.target.closest?.(".plot[data-stretch-seconds]");
  if (!plot || event.button !== 0 || event.target.tagName !== "IMG") return;
  const image = event.target;
  const seconds = Number(plot.dataset.stretchSeconds);
  const at = (moved) => {
    const box = image.getBoundingClientRect();
    return Math.min(1, Math.max(0, (moved.clientX - box.left) / box.width)) * seconds;
  };
  const start = at(event);
  image.setPointerCapture(event.pointerId);
  const move = (moved) => mark(plot, [start, at(moved)].sort((a, b) => a - b));
  const end = (moved) => {
    image.removeEventListener("pointermove", move);
    const stretch = [start, at(moved)].sort((a, b) => a - b);
    // A click is no stretch.
    if (moved.type === "pointerup" && stretch[1] - stretch[0] > seconds / 100) choose(plot, stretch);
    else mark(plot, null);
  };
  image.addEventListener("pointermove", move);
  image.addEventListener("pointerup", end, { once: true });
  image.addEventListener("pointercancel", end, { once: true });
}

function choose(plot, stretch) {
  const told = stretch.map((second) => second.toFixed(3).replace(/\.?0+$/, ""));
  const [from, to] = fields(plot);
  if (from && to) {
    from.value = told[0];
    to.value = told[1];
    const how = from.form.elements.how;
    if (how && how.value !== "inpaint") {
      how.value = "inpaint";
      how.dispatchEvent(new Event("change", { bubbles: true }));
    }
  }
  const clip = plot.closest("[data-stretch-link]");
  const link = clip?.querySelector("a.stretch");
  if (link) {
    link.href = `${clip.dataset.stretchLink}&from=${told[0]}&to=${told[1]}`;
    link.textContent = `Make ${told[0]} to ${told[1]} s anew`;
  }
  mark(plot, stretch);
}

/** Draw a stretch over the picture; null takes it away. */
function mark(plot, stretch) {
  let shown = plot.querySelector(".stretch-mark");
  if (!stretch || !(stretch[1] > stretch[0])) {
    shown?.remove();
    return;
  }
  if (!shown) {
    shown = document.createElement("div");
    shown.className = "stretch-mark";
    plot.append(shown);
  }
  const image = plot.querySelector("img");
  const scale = image.offsetWidth / Number(plot.dataset.stretchSeconds);
  shown.style.left = `${image.offsetLeft + stretch[0] * scale}px`;
  shown.style.width = `${(stretch[1] - stretch[0]) * scale}px`;
}
