// The client of the HTTP API: queries, writes, and the live feed.

import { read } from "./exact.js";

const KEY = "laurels-key";
const TOKEN_SECONDS = 3600;
const LONGEST_WAIT_MS = 30_000;

/** An error that the server answered with, as a problem document. */
export class Refused extends Error {
  constructor(problem) {
    super(problem.detail);
    this.problem = problem;
    this.status = Number(problem.status);
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (secret) => sessionStorage.setItem(KEY, secret),
  forget: () => sessionStorage.removeItem(KEY),
};

/** Returns a path with query parameters; those that are null or undefined are left out. */
export function url(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export function boardPath(board, verb = "") {
  return `/v1/boards/${encodeURIComponent(board)}${verb && `/${verb}`}`;
}

/**
 * Returns an answer with its numbers as text, or null for one without content. Throws Refused for an error of the server, and Error
 * if no answer came.
 */
export async function ask(address, { body, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, text;
  try {
    const method = body === undefined ? "GET" : "POST";
    response = await fetch(address, { method, headers, body: body && JSON.stringify(body), signal });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server cannot be reached.");
  }
  const answer = answerIn(text, response);
  if (!response.ok) throw new Refused(answer);
  return answer;
}

function answerIn(text, response) {
  if (response.status === 204) return null;
  try {
    return read(text);
  } catch {
    throw new Error(`The server answered ${response.status} with something that is not JSON.`);
  }
}

/**
 * Returns a token that may only read one board. It replaces the key where a browser cannot set
 * headers.
 */
async function tokenFor(board, signal) {
  if (!key.get()) return null;
  const made = await ask("/v1/tokens", { body: { boards: [board], seconds: TOKEN_SECONDS }, signal });
  return made.token;
}

/**
 * Follows the live feed of a board until `signal` is aborted. `handlers` has a function for each
 * event by its name, `state` for "live", "waiting" and "paused", and `failed` for errors that a retry
 * cannot resolve.
 *
 * A hidden page has no feed: browsers open few connections to a server at a time, for all pages
 * together.
 */
export function follow(board, query, handlers, signal) {
  const { state, failed, ...events } = handlers;
  let source = null;
  let timer = null;
  let attempt = 0;
  let failures = 0;

  function close() {
    attempt += 1;
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  async function open() {
    close();
    const own = attempt;
    try {
      const token = await tokenFor(board, signal);
      if (own !== attempt) return;
      listen(new EventSource(url(boardPath(board, "live"), { ...query, token })));
    } catch (error) {
      if (own === attempt) recover(error);
    }
  }

  function listen(opened) {
    source = opened;
    for (const [name, handle] of Object.entries(events)) {
      source.addEventListener(name, (event) => {
        failures = 0;
        state("live");
        handle(read(event.data));
      });
    }
    source.addEventListener("error", () => {
      state("waiting");
      if (opened.readyState === EventSource.CLOSED && opened === source) findReason();
    });
  }

  /**
   * Finds out why the server refused the feed, by a query of the same board: an EventSource does not
   * have the reason.
   */
  async function findReason() {
    const own = attempt;
    try {
      const { member: _, ...list } = query;
      await ask(url(boardPath(board, "top"), { ...list, limit: 1 }), { signal });
      if (own === attempt) recover(null);
    } catch (error) {
      if (own === attempt) recover(error);
    }
  }

  function recover(error) {
    if (error instanceof Refused && [401, 403, 404].includes(error.status)) {
      close();
      failed(error);
      return;
    }
    state("waiting");
    failures += 1;
    timer = setTimeout(open, Math.min(1000 * 2 ** failures, LONGEST_WAIT_MS));
  }

  function seen() {
    if (!document.hidden) {
      open();
      return;
    }
    close();
    state("paused");
  }

  document.addEventListener("visibilitychange", seen, { signal });
  signal.addEventListener("abort", close);
  seen();
}
