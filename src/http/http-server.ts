/** What a listener is asked for, and what it is to its owner. Server threads. */

import type { CertificateFiles } from '../std/certificate-files.ts';
import type { CertificateOutcome } from './certificate-watch.ts';
import type { HttpStream } from './http-stream.ts';
import type { UploadPace } from './open-streams.ts';

export interface ServerOptions {
  host: string;
  /** 0: any free one. */
  port: number;
  /** Other threads listen on the same port too. Their starter has checked that no other process does. */
  isShared: boolean;
  /** Called with every request that passed the guards. */
  onStream: (stream: HttpStream) => void;
  /** Body of a refusal: the two ports speak different error shapes. */
  describeError: (status: number, message: string) => string;
  /** Left out: bodies may come as slowly as the client likes. */
  pace?: UploadPace;
  /** Left out: without TLS. */
  tls?: ServerTls;
  /**
   * Left out: a request for WebSocket is an ordinary request. True: it is a stream with `is_switch` (`HttpStream.writeSwitch`), and its
   * connection ends with it. uWebSockets.js needs the addon for this.
   */
  switches_protocols?: boolean;
}

interface ServerTls {
  /** Checked by `checkCertificate`, and read again after a change. */
  files: CertificateFiles;
  /** Called after each change. */
  onChange: (outcome: CertificateOutcome) => void;
}

export interface HttpServer {
  readonly host: string;
  readonly port: number;
  /** Requests being answered. */
  readonly open: number;
  /**
   * Stops listening, lets the open streams finish and closes every connection.
   * @param deadlineMs after it, streams that are still open are cut
   */
  drain(deadlineMs: number): Promise<void>;
}
