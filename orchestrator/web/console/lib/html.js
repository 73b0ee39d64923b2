// What every view draws with: markup as tagged templates, and Preact's hooks. Nothing here makes text into markup.
import { Component, Fragment, h, render } from "../vendor/preact/preact.mjs";
import {
  useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState,
} from "../vendor/preact/hooks.mjs";
import htm from "../vendor/htm/htm.mjs";

export const html = htm.bind(h);
export { Component, Fragment, h, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState };
