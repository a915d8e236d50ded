/**
 * Asks the service of a student of kind `http` about golden steps, as the gateway asks it about live ones, to find out how often
 * it is right. The round's own thread.
 */

import type { GoldenStep } from '../analysis/golden-steps.ts';
import type {
  Consistency,
  StudentService as Service,
  ServiceAnswer,
} from '../analysis/service-calibration.ts';
import { SERVICE_FAILURES_MAX, STUDENT_TIMEOUT_MS } from '../limits.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import { asObject, type JsonObject } from '../providers/json-reading.ts';
import type { StudentAnswer } from '../student/model/decision.ts';
import type { StudentKind } from '../student/model/manifest.ts';
import { kindOfServiceAnswer } from '../student/model/service-evidence.ts';
import { isFitAnswer } from '../student/serving/answer-check.ts';
import { UntranslatableStep } from '../student/serving/service-messages.ts';
import { readStep, WIRES } from '../student/serving/step-reading.ts';
import { StudentService, TOO_LATE } from '../student/serving/student-service.ts';
import { ToolSchemas } from '../student/serving/tool-schemas.ts';
import type { CaptureFiles } from './capture-files.ts';

/** The service does not answer: one line, without its key. */
export class ServiceFailedError extends Error {}

export class StudentAsker implements Service {
  readonly consistency: Consistency;
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
    const { answers, with_exemplar } = this.#service;
    this.consistency = { answers, with_exemplar };
    this.#source = source;
  }

  /** @throws ServiceFailedError when it has failed SERVICE_FAILURES_MAX times in a row */
  async answer(
    { exchange_id: id }: GoldenStep,
    said: ReadonlySet<number>,
  ): Promise<(ServiceAnswer | null)[]> {
    const copy = this.#source.copy(id);
    if (copy === undefined) return [];
    const body = asObject(
      JSON.parse(new TextDecoder().decode(decodeContent(copy.request_body, copy.request_headers).bytes)),
    );
    // As the gateway: the service is asked about steps of this wire alone.
    if (copy.shape !== 'messages') return [];
    const wire = WIRES.messages;
    const read = readStep(wire, body, copy.request_headers);
    // As the gateway: a service promises no form of its answer.
    if (read === null || read.request.response_schema !== null) return [];
    const ask = async (): Promise<ServiceAnswer | null> => {
      const answer = await this.#ask(body);
      if (answer === null || !isFitAnswer(answer, read.request, { wire, body }, this.#schemas)) return null;
      return { answer, kind: kindOfServiceAnswer(answer.content, read.request, said) };
    };
    try {
      return await Promise.all(Array.from({ length: this.consistency.answers }, ask));
    } catch (error) {
      if (error instanceof UntranslatableStep) return [];
      throw error;
    }
  }

  /** @returns null when it failed */
  async #ask(body: JsonObject): Promise<StudentAnswer | null> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(TOO_LATE), STUDENT_TIMEOUT_MS.http);
    try {
      const answer = await this.#service.ask(body, late.signal);
      this.#failures = 0;
      return answer;
    } catch (error) {
      if (error instanceof UntranslatableStep) throw error;
      this.#failures += 1;
      if (this.#failures < SERVICE_FAILURES_MAX) return null;
      const why = String(error instanceof Error ? error.message : error).slice(0, 200);
      throw new ServiceFailedError(
        `the service at ${this.#endpoint} failed ${this.#failures} times in a row: ${why}`,
      );
    } finally {
      clearTimeout(timer);
    }
  }

  close(): Promise<void> {
    return this.#service.close();
  }
}
