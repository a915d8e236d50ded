/**
 * Looks whether the files of a listener's certificate have changed, and says when there is a good new pair. Server threads, one
 * a secure listener.
 */
import {
  type CertificateFacts,
  type CertificateFiles,
  checkCertificate,
  markFiles,
} from '../std/certificate-files.ts';

/** What became of a changed pair: `thrown` says why the earlier one stays. */
export type CertificateOutcome = { facts: CertificateFacts } | { thrown: Error };

const LOOK_MS = 1_000;

export class CertificateWatch {
  readonly #files: CertificateFiles;
  readonly #renew: () => Promise<void>;
  readonly #tell: (outcome: CertificateOutcome) => void;
  readonly #timer: NodeJS.Timeout;
  /** Of what is shown to clients, or could not be. */
  #mark: string;
  /** Seen once: the pair counts when it is the same at the next look, since the files are written one after the other. */
  #seen: string;
  #isRenewing = false;

  /**
   * @param renew has the listener read the files, which are good
   * @param tell told of each change
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
