// Runs the search of the docs in a frame where the pages are opened from a folder: browsers start no
// workers from files. mkdocs-material's offline plugin would fetch such a script from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      const load = (address) =>
        new Promise((done) => {
          const script = inside.document.createElement("script")
          script.src = new URL(address, location.href).href
          script.onload = done
          inside.document.body.append(script)
        })
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data })
        this.onmessage?.(event)
        this.dispatchEvent(event)
      }
      inside.importScripts = (...urls) => Promise.all(urls.map(load))
      this.ready = load(url)
    }
    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
