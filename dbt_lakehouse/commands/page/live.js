"use strict";
// State and runs are renewed as long as that is wanted. Without this script the page is whole, and
// its link loads it again.
const PARTS = ["as-of", "verdict", "span", "status"];
const wanted = document.getElementById("renewed");
const unanswered = document.getElementById("unanswered");
document.getElementById("renews").hidden = false;
let isAsking = false;

async function renew() {
  if (!wanted.checked || document.hidden || isAsking) return;
  isAsking = true;
  let page;
  try {
    const answer = await fetch("/", { cache: "no-store" });
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    unanswered.textContent = "There is no answer: does `lakehouse page` still run?";
    return;
  } finally {
    isAsking = false;
  }
  unanswered.textContent = "";
  for (const part of PARTS.map((id) => document.getElementById(id))) {
    const found = page.getElementById(part.id);
    // What holds the focus is being read.
    if (found === null || part.contains(document.activeElement)) continue;
    if (part.innerHTML === found.innerHTML) continue;
    // The element itself stays: a screen reader tells what is new in it.
    part.className = found.className;
    part.replaceChildren(...found.childNodes);
  }
}

setInterval(renew, 10_000);
