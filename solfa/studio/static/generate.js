// The room of models: jobs that report, stretches of spectrograms, sliders, and fields that only some wishes need.
import { followJobs } from "./jobs.js";
import { chooseStretches } from "./stretches.js";

followJobs();
chooseStretches();

for (const form of document.querySelectorAll("form[data-submit-on-choice]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

for (const slider of document.querySelectorAll("input[data-follows]")) {
  const number = slider.parentElement.querySelector('input[type="number"]');
  slider.hidden = false;
  slider.value = number.value === "" ? (Number(slider.min) + Number(slider.max)) / 2 : number.value;
  slider.addEventListener("input", () => {
    number.value = String(Number(Number(slider.value).toPrecision(4)));
  });
  number.addEventListener("input", () => {
    if (number.value !== "") slider.value = number.value;
  });
}

const how = document.querySelector('select[name="how"]');
if (how) {
  const show = () => {
    for (const part of document.querySelectorAll("[data-how]")) {
      part.hidden = part.dataset.how !== how.value;
      for (const field of part.querySelectorAll("input")) field.disabled = part.hidden;
    }
  };
  how.addEventListener("change", show);
  const file = document.querySelector('input[type="file"][name="recording"]');
  file?.addEventListener("change", () => {
    if (file.files.length && how.value === "") how.value = "prompt";
    show();
  });
  show();
}
