/**
 * Asks the service of a student of kind `http` about golden steps, as the gateway asks it about live ones, to find out how often
 * it is right. The round's own thread.
 */

import type { StudentService as Service } from '../analysis/distill.ts';
import type { GoldenStep } from '../analysis/golden-steps.ts';
import { SERVICE_FAILURES_MAX, STUDENT_TIMEOUT_MS } from '../limits.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import { asObject } from '../providers/json-reading.ts';
import type { StudentAnswer } from '../student/model/decision.ts';
import type { StudentKind } from '../student/model/manifest.ts';
import { isFitAnswer } from '../student/serving/answer-check.ts';
import { UntranslatableStep } from '../student/serving/service-messages.ts';
import { readStep, WIRES } from '../student/serving/step-reading.ts';
import { StudentService } from '../student/serving/student-service.ts';
import { ToolSchemas } from '../student/serving/tool-schemas.ts';
import type { CaptureFiles } from './capture-files.ts';

/** The service does not answer: one line, without its key. */
export class ServiceFailedError extends Error {}

export class StudentAsker implements Service {
  readonly #service: StudentService;
  readonly #endpoint: string;
  readonly #source: CaptureFiles;
  readonly #schemas = new ToolSchemas();
  #failures = 0;

  /**
   * @param key '' for none
   * @param source where the golden steps' requests are
   */
  constructor(student: Extract<StudentKind, { kind: 'http' }>, key: string, source: CaptureFiles) {
    this.#service = new StudentService(student, key);
    this.#endpoint = student.endpoint;
    this.#source = source;
  }

  /** @throws ServiceFailedError when it has failed SERVICE_FAILURES_MAX times in a row */
  async answer({ exchange_id: id }: GoldenStep): Promise<StudentAnswer | null> {
    const copy = this.#source.copy(id);
    if (copy === undefined) return null;
    const body = asObject(
      JSON.parse(new TextDecoder().decode(decodeContent(copy.request_body, copy.request_headers).bytes)),
    );
    // As the gateway: the service is asked about steps of this wire alone.
    if (copy.shape !== 'messages') return null;
    const wire = WIRES.messages;
    const read = readStep(wire, body, copy.request_headers);
    // As the gateway: a service promises no form of its answer.
    if (read === null || read.request.response_schema !== null) return null;
    try {
      const answer = await this.#service.ask(body, AbortSignal.timeout(STUDENT_TIMEOUT_MS.http));
      this.#failures = 0;
      return isFitAnswer(answer, read.request, { wire, body }, this.#schemas) ? answer : null;
    } catch (error) {
      if (error instanceof UntranslatableStep) return null;
      this.#failures += 1;
      if (this.#failures < SERVICE_FAILURES_MAX) return null;
      const why = (error as Error).message.slice(0, 200);
      throw new ServiceFailedError(
        `the service at ${this.#endpoint} failed ${this.#failures} times in a row: ${why}`,
      );
    }
  }

  close(): Promise<void> {
    return this.#service.close();
  }
}
