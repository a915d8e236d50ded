/**
 * A Link within one thread: a sent frame is delivered at once. Frames are not copied, so neither side may change what
 * it has sent or received. No frame is ever in transit, so the link needs no bound: the mailboxes bound the messages
 * that wait. Any thread.
 */
import type { Frame, Link, LinkStats } from './link.ts';

/** Makes the two ends of a link. */
export function createLocalLink(): [Link, Link] {
  const near = new LocalEnd();
  const far = new LocalEnd();
  near.other = far;
  far.other = near;
  return [near, far];
}

class LocalEnd implements Link {
  onFrame: (frame: Frame) => void = () => {};
  onClose: () => void = () => {};
  other: LocalEnd = this;
  #isClosed = false;
  #sent = 0;

  /**
   * Passes the frame to the other end, which handles it before this method returns. Throws the exceptions of
   * the other end.
   */
  send(frame: Frame): boolean {
    if (this.#isClosed) return false;
    this.#sent++;
    this.other.onFrame(frame);
    return true;
  }

  flush(): void {}

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.other.close();
    this.onClose();
  }

  stats(): LinkStats {
    return { bytes_sent: 0, batches_sent: this.#sent, refused: 0, bytes_in_flight: 0 };
  }
}
