// Fetches the page every two seconds and puts its content in place. Without this the page refreshes itself.
setInterval(async () => {
  if (document.hidden) return;
  const stale = document.querySelector("#stale");
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    if (!answer.ok || !fresh) throw new Error(answer.status);
    document.querySelector("main").replaceWith(fresh);
    stale.hidden = true;
  } catch {
    stale.hidden = false;
  }
}, 2000);
