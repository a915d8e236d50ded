/**
 * Asks the model service behind a student of kind `http` about golden steps, as the gateway asks this service
 * about live steps. The answers show how often the service is right. The round's own thread.
 */

import type { StudentAnswer } from '../student/model/decision.ts';
import type { StudentKind } from '../student/model/manifest.ts';
import { kindOfServiceAnswer } from '../student/model/service-evidence.ts';
import { SERVICE_FAILURES_MAX, STUDENT_TIMEOUT_MS } from '../student/serving/limits.ts';
import { readServiceStep, type ServiceStep, UntranslatableStep } from '../student/serving/service-step.ts';
import { StudentService, TOO_LATE } from '../student/serving/student-service.ts';
import type { GoldenRequests } from './golden-requests.ts';
import type { GoldenStep } from './golden-steps.ts';
import type { Consistency, StudentService as Service, ServiceAnswer } from './service-calibration.ts';

/**
 * Thrown after SERVICE_FAILURES_MAX requests in a row to the service have failed. The message is one line, without the
 * service's key.
 */
export class ServiceFailedError extends Error {}

/** Maximum number of reasons that are counted separately; further ones count as `other`. */
const UNTOLD_REASONS = 20;

export class StudentAsker implements Service {
  readonly consistency: Consistency;
  readonly #service: StudentService;
  readonly #endpoint: string;
  readonly #requests: GoldenRequests;
  #failures = 0;
  readonly #untold = new Map<string, number>();

  /** @param key '' when none is needed */
  constructor(student: Extract<StudentKind, { kind: 'http' }>, key: string, requests: GoldenRequests) {
    this.#service = new StudentService(student, key);
    this.#endpoint = student.endpoint;
    const { answers, with_exemplar } = this.#service;
    this.consistency = { answers, with_exemplar };
    this.#requests = requests;
  }

  /** Number of golden steps that could not be translated for the service, by reason. */
  get untold(): Record<string, number> {
    return Object.fromEntries(this.#untold);
  }

  /**
   * Asks the service about a step, `consistency.answers` times at once.
   * @param said hashes of words in the golden answers of the step's agent
   * @returns one entry for each request: null if the request failed, or if its answer does not fit the golden request. Empty
   * if the golden request cannot be read, or cannot be translated
   * @throws ServiceFailedError after SERVICE_FAILURES_MAX consecutive failures
   */
  async answer(step: GoldenStep, said: ReadonlySet<number>): Promise<(ServiceAnswer | null)[]> {
    const asked = this.#requests.read(step);
    if (asked === null) return [];
    const ask = async (put: ServiceStep): Promise<ServiceAnswer | null> => {
      const answer = await this.#ask(put);
      if (answer === null || !this.#requests.isFitFor(asked, answer)) return null;
      return { answer, kind: kindOfServiceAnswer(answer.content, asked.request, said) };
    };
    try {
      const put = readServiceStep(asked);
      return await Promise.all(Array.from({ length: this.consistency.answers }, () => ask(put)));
    } catch (error) {
      if (!(error instanceof UntranslatableStep)) throw error;
      // The text names blocks of unknown types; one agent uses only a few.
      const why =
        this.#untold.size < UNTOLD_REASONS || this.#untold.has(error.message) ? error.message : 'other';
      this.#untold.set(why, (this.#untold.get(why) ?? 0) + 1);
      return [];
    }
  }

  /**
   * Sends one request.
   * @returns null when it failed
   */
  async #ask(step: ServiceStep): Promise<StudentAnswer | null> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(TOO_LATE), STUDENT_TIMEOUT_MS.http);
    try {
      const answer = await this.#service.ask(step, late.signal);
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
