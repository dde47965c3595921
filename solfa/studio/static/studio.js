// What every page of the studio does beyond showing itself. Without scripts the pages work by links and forms.
import { listenToKeys } from "./keys.js";
import { watch } from "./live.js";
import { searchAsTyped } from "./search.js";
import { explainSounds, playButtons } from "./sounds.js";

document.documentElement.classList.add("scripted");
watch();
searchAsTyped();
explainSounds();
playButtons();
listenToKeys();
