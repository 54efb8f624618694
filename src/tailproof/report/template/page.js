"use strict";
(() => {
  const tip = document.getElementById("tip");
  const show = (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    if (!mark) { tip.hidden = true; return; }
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const top = event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 12 : event.clientY + 18;
    tip.style.setProperty("left", Math.max(left, 8) + "px");
    tip.style.setProperty("top", top + "px");
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  for (const figure of document.querySelectorAll("figure")) {
    const plot = figure.querySelector(".plot");
    const items = figure.querySelectorAll(".legend li");
    if (!plot || items.length < 2) continue;
    for (const item of items) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.title = "Show or hide";
      button.append(...item.childNodes);
      item.append(button);
      const tone = button.querySelector(".key").classList[1];
      button.addEventListener("click", () => {
        const hidden = plot.classList.toggle("hide-" + tone);
        button.setAttribute("aria-pressed", String(!hidden));
      });
    }
  }

  const key = (cell) => cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent;
  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 4) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.setAttribute("aria-sort", "none");
      head.tabIndex = 0;
      const sort = () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].sort((a, b) => {
          const x = key(a.cells[column]), y = key(b.cells[column]);
          const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
          return down ? -order : order;
        });
        body.append(...rows);
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
    });
  }

  const links = [...document.querySelectorAll("nav a")];
  if ("IntersectionObserver" in window && links.length) {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links) link.classList.toggle("here", link.hash === "#" + entry.target.id);
      }
    }, { rootMargin: "-10% 0px -75% 0px" });
    for (const section of document.querySelectorAll("main > section")) seen.observe(section);
  }

  window.addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll(".expert")) folded.open = true;
  });

  const save = document.createElement("button");
  save.type = "button";
  save.textContent = "Save the numbers as JSON";
  save.addEventListener("click", () => {
    const text = document.getElementById("record").textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "tailproof.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  document.getElementById("actions").append(save);
  document.documentElement.dataset.ready = "yes";
})();
