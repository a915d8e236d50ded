/**
 * The options and the interface of a listener. Server threads.
 */

import type { CertificateFiles } from '../std/certificate-files.ts';
import type { CertificateOutcome } from './certificate-watch.ts';
import type { HttpStream } from './http-stream.ts';
import type { UploadPace } from './open-streams.ts';

export interface ServerOptions {
  host: string;
  /** 0: any free one. */
  port: number;
  /**
   * Whether other threads listen on the same port, too. The main thread has then checked that no
   * other process does.
   */
  isShared: boolean;
  /** Called with every request that the guards allow. */
  onStream: (stream: HttpStream) => void;
  /** Makes the body of a refusal. The two ports have different error formats. */
  describeError: (status: number, message: string) => string;
  /** The minimum rate at which bodies must arrive; absent: bodies may arrive at any rate. */
  pace?: UploadPace;
  /** Absent: without TLS. */
  tls?: ServerTls;
  /**
   * True: a WebSocket handshake becomes a stream with `is_switch` (`HttpStream.writeSwitch`), and
   * its connection ends with the stream. Absent: it is an ordinary request. uWebSockets.js needs
   * the addon for this.
   */
  switches_protocols?: boolean;
}

interface ServerTls {
  /** Checked with `checkCertificate`, and read again after a change. */
  files: CertificateFiles;
  /** Called after each change of the files. */
  onChange: (outcome: CertificateOutcome) => void;
}

export interface HttpServer {
  readonly host: string;
  readonly port: number;
  /** Requests being answered. */
  readonly open: number;
  /**
   * Stops listening, finishes the open streams and closes every connection.
   * @param deadlineMs when streams that are still open are closed
   */
  drain(deadlineMs: number): Promise<void>;
}
