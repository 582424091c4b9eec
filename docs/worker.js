// Browsers start no worker of a page that is read from a disk (file:). The search of the site needs one: here a hidden
// frame runs its script. The theme asks for the name IFrameWorker, and waits for importScripts.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.ready = new Promise((shown) => { frame.onload = shown }).then(() => {
        const inner = this.inner = frame.contentWindow
        const load = (address) => new Promise((loaded, failed) => {
          const script = inner.document.createElement("script")
          Object.assign(script, { src: new URL(address, location), onload: loaded, onerror: failed })
          inner.document.head.append(script)
        })
        inner.importScripts = async (...addresses) => { for (const each of addresses) await load(each) }
        inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
        return load(url)
      })
      document.body.append(frame)
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {}
  }
}
