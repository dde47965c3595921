// The room of encoding: files may be dropped anywhere on the page, and jobs report.
import { followJobs } from "./jobs.js";

followJobs();

const zone = document.querySelector("[data-drop]");
const input = zone.querySelector("input[type=file]");
const chosen = zone.querySelector("[data-chosen]");

function show() {
  const names = [...input.files].map((file) => file.name);
  if (names.length) chosen.textContent = names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
}

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
document.addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  zone.classList.add("over");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) zone.classList.remove("over");
});
document.addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  zone.classList.remove("over");
  input.files = event.dataTransfer.files;
  show();
});
input.addEventListener("change", show);
