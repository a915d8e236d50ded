/**
 * The service with the cheaper model behind a student of kind `http`: asks the service for the answer to a covered step,
 * and checks everything that comes back. The service's key goes into one header and nowhere else; this file never sees
 * a client's credential. The student's thread.
 */

import { Pool } from 'undici';
import { type Clock, systemClock } from '../../std/clock.ts';
import { parseExact } from '../../std/exact-json.ts';
import type { StudentAnswer } from '../model/decision.ts';
import type { StudentKind } from '../model/manifest.ts';
import { SERVICE_FAILURES_MAX, STEPS_UNDER_WAY } from './limits.ts';
import { fromChatAnswer } from './service-chat-completions.ts';
import { fromMessagesAnswer } from './service-messages.ts';
import { writeServiceRequest } from './service-request.ts';
import type { ServiceStep } from './service-step.ts';

/**
 * How long a service is not asked after too many failures in a row. After this pause, steps ask it again. The next
 * failure starts the pause again.
 */
export const SERVICE_REST_MS = 15_000;
/** Largest answer of the service behind a student, in bytes. */
export const STUDENT_SERVICE_ANSWER_BYTES = 1 << 20;
/** Largest text and calls of the service's answer, in characters of their JSON. Thinking does not count. */
const SERVICE_CONTENT_BYTES = 64 << 10;

type HttpStudent = Extract<StudentKind, { kind: 'http' }>;

const API_VERSION = '2023-06-01';

const STYLES = {
  messages: {
    path: '/v1/messages',
    fromAnswer: fromMessagesAnswer,
    headers: (key: string) => ({
      'anthropic-version': API_VERSION,
      ...(key === '' ? {} : { 'x-api-key': key }),
    }),
  },
  chat_completions: {
    path: '/v1/chat/completions',
    fromAnswer: fromChatAnswer,
    headers: (key: string) => (key === '' ? {} : { authorization: `Bearer ${key}` }),
  },
} as const;

/** Abort reason for a step whose deadline has passed. Only this abort counts as a failure of the service. */
export const TOO_LATE = 'too late';

/** Statuses that show a fault of a single request, not of the service. */
const OF_THE_REQUEST = new Set([400, 413, 422]);

/** What is wrong with the service's answer, in our own words; it quotes no part of the answer or of a request. */
export class ServiceFailure extends Error {
  /** Status of the service's answer, if it is not 200; null for every other failure. */
  readonly status: number | null;

  constructor(message: string, status: number | null = null) {
    super(message);
    this.status = status;
    this.name = 'ServiceFailure';
  }
}

export class StudentService {
  readonly model: string;
  /** Number of the service's answers to one step that must agree. */
  readonly answers: number;
  /** Whether the answer derived from golden steps must agree, too. */
  readonly with_exemplar: boolean;
  readonly #student: HttpStudent;
  readonly #key: string;
  readonly #clock: Clock;
  /** Consecutive failures. */
  #failures = 0;
  #restUntilMs = Number.NEGATIVE_INFINITY;
  readonly #style: (typeof STYLES)[HttpStudent['style']];
  readonly #pool: Pool;
  readonly #path: string;
  readonly #headers: Record<string, string>;

  /** @param key the service's key; '' for a service without one */
  constructor(student: HttpStudent, key: string, clock: Clock = systemClock) {
    const { endpoint, model, style, answers = 1, with_exemplar = false } = student;
    this.#student = student;
    this.#key = key;
    const url = new URL(endpoint);
    this.model = model;
    this.answers = answers;
    this.with_exemplar = with_exemplar;
    this.#clock = clock;
    this.#style = STYLES[style];
    this.#path = url.pathname.replace(/\/$/, '') + this.#style.path;
    this.#headers = {
      'content-type': 'application/json',
      accept: 'application/json',
      ...this.#style.headers(key),
    };
    this.#pool = new Pool(url.origin, {
      connections: STEPS_UNDER_WAY,
      pipelining: 1,
      maxResponseSize: STUDENT_SERVICE_ANSWER_BYTES,
    });
  }

  /**
   * Asks the service for the answer to a step.
   * @param signal aborted when the answer is no longer wanted
   * @throws UntranslatableStep for a step that cannot be translated for the service; ServiceFailure or another Error
   *   when the service fails, its answer is incomplete, or requests are paused after failures. The rules that the
   *   request sets are not checked here.
   */
  async ask(step: ServiceStep, signal: AbortSignal): Promise<StudentAnswer> {
    const asked = JSON.stringify(writeServiceRequest(this.#student, step));
    if (this.#clock.monotonicMs() < this.#restUntilMs)
      throw new ServiceFailure("requests to the student's service are paused after failures");
    try {
      const answer = await this.#send(asked, signal);
      this.#failures = 0;
      return answer;
    } catch (thrown) {
      const isNoFault =
        (signal.aborted && signal.reason !== TOO_LATE) ||
        (thrown instanceof ServiceFailure && OF_THE_REQUEST.has(thrown.status ?? 0));
      if (!isNoFault) this.#failures += 1;
      if (this.#failures >= SERVICE_FAILURES_MAX)
        this.#restUntilMs = this.#clock.monotonicMs() + SERVICE_REST_MS;
      throw thrown;
    }
  }

  async #send(asked: string, signal: AbortSignal): Promise<StudentAnswer> {
    const answer = await this.#pool.request({
      method: 'POST',
      path: this.#path,
      headers: this.#headers,
      body: asked,
      signal,
    });
    if (answer.statusCode !== 200) {
      await answer.body.dump();
      throw new ServiceFailure(`the student's service answered ${answer.statusCode}`, answer.statusCode);
    }
    const read = this.#style.fromAnswer(parseExact(await answer.body.text()));
    if (read === null) throw new ServiceFailure("the student's service gave no whole answer");
    // A model that repeats itself may still end its answer, so the answer's length is checked.
    const said = JSON.stringify(read.content);
    if (said.length > SERVICE_CONTENT_BYTES)
      throw new ServiceFailure("the answer of the student's service is too long");
    // Clients must never see the key.
    if (this.#key !== '' && said.includes(this.#key))
      throw new ServiceFailure("the answer of the student's service contains the service's key");
    return read;
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}
