// Keys: / goes to the search, n and p to the next and the previous page or clip.

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    }
    const rel = { n: "next", p: "prev" }[event.key];
    if (rel) document.querySelector(`a[rel=${rel}]`)?.click();
  });
}
