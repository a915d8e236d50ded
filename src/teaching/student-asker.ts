/**
 * Asks the service of a student of kind `http` about golden steps, as the gateway asks it about live ones, to measure
 * how often it is right. The round's own thread.
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

/** Thrown when the service does not answer. The message is one line, without the service's key. */
export class ServiceFailedError extends Error {}

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

  get untold(): Record<string, number> {
    return Object.fromEntries(this.#untold);
  }

  /** @throws ServiceFailedError after SERVICE_FAILURES_MAX consecutive failures */
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
