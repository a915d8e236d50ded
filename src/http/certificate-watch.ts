/**
 * Watches the certificate files of a listener. Makes the listener load a valid new pair, and reports every new pair.
 * Server threads, one instance for each secure listener.
 */
import {
  type CertificateFacts,
  type CertificateFiles,
  checkCertificate,
  markFiles,
} from '../std/certificate-files.ts';

/** The outcome of a changed pair of files. `thrown`: why the new pair is not used. */
export type CertificateOutcome = { facts: CertificateFacts } | { thrown: Error };

const LOOK_MS = 1_000;

export class CertificateWatch {
  readonly #files: CertificateFiles;
  readonly #renew: () => Promise<void>;
  readonly #tell: (outcome: CertificateOutcome) => void;
  readonly #timer: NodeJS.Timeout;
  /** Identifies the pair that was last loaded or found invalid. */
  #mark: string;
  /**
   * Identifies the pair at the last check. A new pair is used only if two checks find it unchanged,
   * because its two files are written one after the other.
   */
  #seen: string;
  #isRenewing = false;

  /**
   * @param renew makes the listener load the files, which are valid
   * @param tell called after each change, with the new certificate or with the reason why it is not used
   */
  constructor(
    files: CertificateFiles,
    renew: () => Promise<void>,
    tell: (outcome: CertificateOutcome) => void,
  ) {
    this.#files = files;
    this.#renew = renew;
    this.#tell = tell;
    this.#mark = this.#seen = markFiles(files);
    this.#timer = setInterval(() => void this.#look(), LOOK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const mark = markFiles(this.#files);
    const isStill = mark === this.#seen;
    this.#seen = mark;
    if (!isStill || mark === this.#mark || this.#isRenewing) return;
    this.#mark = mark;
    this.#isRenewing = true;
    try {
      const facts = checkCertificate(this.#files);
      await this.#renew();
      this.#tell({ facts });
    } catch (thrown) {
      this.#tell({ thrown: thrown as Error });
    }
    this.#isRenewing = false;
  }
}
