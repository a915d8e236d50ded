/**
 * Re-reads the requests of golden steps from the capture database, and checks whether a student's answer to a request
 * may be served. Live answers pass the same check, so a round's report counts no answers that the gateway would refuse
 * to serve. The round's own thread.
 */

import type { CaptureFiles } from '../captures/capture-files.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import { asObject } from '../providers/json-reading.ts';
import type { StudentAnswer } from '../student/model/decision.ts';
import { isFitAnswer } from '../student/serving/answer-check.ts';
import type { ReadRequest } from '../student/serving/service-step.ts';
import { readStep, wireOf } from '../student/serving/step-reading.ts';
import { ToolSchemas } from '../student/serving/tool-schemas.ts';
import type { GoldenStep } from './golden-steps.ts';

export class GoldenRequests {
  readonly #source: CaptureFiles;
  readonly #schemas = new ToolSchemas();

  constructor(source: CaptureFiles) {
    this.#source = source;
  }

  /**
   * Reads the request of a golden step again.
   * @returns null when the exchange no longer exists, or no student reads its request
   */
  read({ exchange_id }: GoldenStep): ReadRequest | null {
    const copy = this.#source.copy(exchange_id);
    const wire = copy === undefined ? null : wireOf(copy.shape);
    if (copy === undefined || wire === null) return null;
    const { bytes } = decodeContent(copy.request_body, copy.request_headers);
    const body = asObject(JSON.parse(new TextDecoder().decode(bytes)));
    const read = readStep(wire, body, copy.request_headers);
    return read === null ? null : { wire, body, request: read.request };
  }

  isFitFor(asked: ReadRequest, answer: StudentAnswer): boolean {
    return isFitAnswer(answer, asked.request, asked, this.#schemas);
  }

  /** Whether an answer may be served, for a step whose request is not in memory. Only one call at a time. */
  async isFit(step: GoldenStep, answer: StudentAnswer): Promise<boolean> {
    const asked = this.read(step);
    // Unmaps the pages of the capture files.
    await this.#source.release();
    return asked !== null && this.isFitFor(asked, answer);
  }
}
